package oci

import (
	"archive/tar"
	"cmp"
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

// Limits of an archive.
const (
	maxEntries = 4096
	maxEntry   = MaxProgram // bytes
)

// SaveTar writes an OCI layout with a to a tar archive at path, and replaces any file there.
// The same artifact and tag make the same archive. tag may be empty.
func SaveTar(path, tag string, a *Artifact) error {
	if err := a.complete(); err != nil {
		return err
	}
	all, err := layoutFiles(&ocispec.Index{}, tag, a)
	if err != nil {
		return err
	}
	return replaceFile(path, func(w io.Writer) error { return writeTar(w, all) })
}

// replaceFile replaces the file at path. After a crash it has all of its bytes or is unchanged.
func replaceFile(path string, write func(io.Writer) error) error {
	return regular.Replace(path, 0o644, func(f *os.File) error { return errors.Join(write(f), f.Sync()) })
}

func writeTar(to io.Writer, all []file) error {
	w := tar.NewWriter(to)
	header := func(kind byte, name string, size int, mode int64) error {
		return w.WriteHeader(&tar.Header{Typeflag: kind, Name: name, Size: int64(size), Mode: mode, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR})
	}
	err := errors.Join(header(tar.TypeDir, "blobs/", 0, 0o755), header(tar.TypeDir, "blobs/sha256/", 0, 0o755))
	for _, f := range all {
		if err == nil {
			err = header(tar.TypeReg, f.name, len(f.data), 0o644)
		}
		if err == nil {
			_, err = w.Write(f.data)
		}
	}
	return cmp.Or(err, w.Close())
}

// loadTar reads an archive without unpacking it: no name in it becomes a path of the host.
func loadTar(path string, on Platform) ([]*Artifact, error) {
	archive, err := openTar(path)
	if err != nil {
		return nil, err
	}
	defer archive.file.Close()
	return load(archive.open, on)
}

// archive is a tar archive, with the positions of its files.
type archive struct {
	file  *os.File
	files map[string]section
}

// section is the part of the archive with the contents of one file, in bytes.
type section struct{ offset, size int64 }

// openTar opens an archive and indexes its files. Links, devices and duplicates are errors.
func openTar(path string) (*archive, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	a := &archive{file: f, files: make(map[string]section)}
	if err := a.index(); err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

func (a *archive) index() error {
	r := tar.NewReader(a.file)
	for entries := 0; ; entries++ {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%w: must be a tar archive of an OCI layout, not compressed", err)
		case entries == maxEntries:
			return fmt.Errorf("more than %d entries", maxEntries)
		}
		if err := a.add(h); err != nil {
			return err
		}
	}
}

// add records the entry at the current position of the archive.
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
		return fmt.Errorf("entry %.80q occurs twice", h.Name)
	}
	offset, err := a.file.Seek(0, io.SeekCurrent) // the tar reader does not read ahead
	a.files[name] = section{offset, h.Size}
	return err
}

// open returns the contents of a file of the archive.
func (a *archive) open(name string) (io.ReadCloser, error) {
	p, ok := a.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(io.NewSectionReader(a.file, p.offset, p.size)), nil
}
