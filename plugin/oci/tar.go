package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/daeace23/prober/internal/regular"
)

// The most that an archive may have.
const (
	maxEntries = 4096
	maxEntry   = MaxProgram
)

// SaveTar writes an OCI layout with a as a tar archive at path, in the place of any file
// that is there. The same artifact and tag make the same archive. tag may be empty.
func SaveTar(path, tag string, a *Artifact) error {
	if err := a.complete(); err != nil {
		return err
	}
	all, err := layoutFiles(&ocispec.Index{}, tag, a)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(writeTar(f, all), f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func writeTar(to io.Writer, all []file) error {
	w := tar.NewWriter(to)
	for _, dir := range []string{"blobs/", "blobs/sha256/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}); err != nil {
			return err
		}
	}
	for _, f := range all {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Size: f.size(), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if err := f.copyTo(w); err != nil {
			return err
		}
	}
	return w.Close()
}

// loadTar reads an archive without unpacking it: nothing in it is ever a path of the
// machine.
func loadTar(path string, on Platform) ([]*Artifact, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	archive, err := indexTar(f)
	if err != nil {
		return nil, err
	}
	return load(archive.open, on)
}

// archive is a tar archive, and where the contents of its files begin.
type archive struct {
	file  *os.File
	files map[string]place
}

type place struct{ at, size int64 }

// indexTar finds the files of an archive, and refuses one with anything that a layout
// has no use for.
func indexTar(f *os.File) (*archive, error) {
	a := &archive{file: f, files: make(map[string]place)}
	r := tar.NewReader(f)
	for entries := 0; ; entries++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: want a tar archive of an OCI layout, not compressed", err)
		}
		if entries == maxEntries {
			return nil, fmt.Errorf("more than %d entries", maxEntries)
		}
		if err := a.add(h); err != nil {
			return nil, err
		}
	}
}

// add takes the entry that the archive's reader stands at.
func (a *archive) add(h *tar.Header) error {
	name := strings.TrimPrefix(path.Clean(h.Name), "./")
	switch {
	case path.IsAbs(h.Name) || !filepath.IsLocal(h.Name) || !fs.ValidPath(name):
		return fmt.Errorf("entry %.80q leads out of the archive", h.Name)
	case h.Typeflag == tar.TypeDir, h.Typeflag == tar.TypeXGlobalHeader:
		return nil
	case h.Typeflag != tar.TypeReg:
		return fmt.Errorf("entry %.80q is not a regular file", h.Name)
	case h.Size > maxEntry:
		return fmt.Errorf("entry %.80q of %d bytes; at most %d are allowed", h.Name, h.Size, maxEntry)
	}
	if _, ok := a.files[name]; ok {
		return fmt.Errorf("entry %.80q is there twice", h.Name)
	}
	at, err := a.file.Seek(0, io.SeekCurrent) // the reader reads ahead of nothing
	a.files[name] = place{at, h.Size}
	return err
}

// open returns the contents of a file of the archive.
func (a *archive) open(name string) (io.ReadCloser, error) {
	p, ok := a.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(io.NewSectionReader(a.file, p.at, p.size)), nil
}
