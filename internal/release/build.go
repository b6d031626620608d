package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"
)

// programs are in each archive. The SBOM describes the first one, which links all modules of the others.
var programs = [...]string{"prober", "prober-probe"}

// compile builds the programs for a platform.
func (r *release) compile(goos, goarch string) (files []file, _ error) {
	dir, err := os.MkdirTemp("", "prober-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	withSite, err := r.overlaySite(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range programs {
		out := filepath.Join(dir, name)
		args := append([]string{"build", "-trimpath", "-o", out,
			"-ldflags", "-s -w -buildid= -X github.com/daeace23/prober/internal/cli/program.Version=" + r.version}, withSite...)
		cmd := exec.Command(r.goTool, append(args, "./cmd/"+name)...)
		cmd.Dir, cmd.Stderr = r.source, os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off")
		if err := cmd.Run(); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, data: data, exec: true})
	}
	return files, nil
}

// packTar returns a .tar.gz archive of files in a folder. All have the same time and owner.
func packTar(folder string, files []file, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: folder + "/" + f.name, Size: int64(len(f.data)), Mode: mode(f), ModTime: date, Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := errors.Join(w.Close(), z.Close())
	return b.Bytes(), err
}

// packZip returns a .zip archive of files in a folder.
func packZip(folder string, files []file, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		header := &zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: date}
		header.SetMode(os.FileMode(mode(f)))
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func mode(f file) int64 {
	if f.exec {
		return 0o755
	}
	return 0o644
}
