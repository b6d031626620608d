package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxSite is the most bytes that the documents may add to the program.
const maxSite = 2 << 20

// packSite returns an archive of the documents in the folder r.site. It is an error if they have no first page, or take more
// than maxSite.
func (r *release) packSite() (file, error) {
	var files []file
	root := os.DirFS(r.site)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		files = append(files, file{name: path, data: data})
		return err
	})
	if err != nil {
		return file{}, err
	}
	data, err := packZip("", files, r.date)
	if err != nil {
		return file{}, err
	}
	f := file{name: "prober_" + r.version + "_docs.zip", data: data}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return f, err
	}
	if _, err := archive.Open("index.html"); err != nil {
		return f, fmt.Errorf("%s has no first page: %w", r.site, err)
	}
	if len(data) > maxSite {
		return f, fmt.Errorf("the documents in %s take %d bytes, more than %d", r.site, len(data), maxSite)
	}
	return f, nil
}

// overlaySite writes the archive and a file for -overlay, which puts it into the source without changing it. It returns
// the arguments of the Go tool.
func (r *release) overlaySite(dir string) ([]string, error) {
	if len(r.docs.data) == 0 {
		return nil, nil
	}
	source, err := filepath.Abs(r.source)
	if err != nil {
		return nil, err
	}
	packed, overlay := filepath.Join(dir, "site.zip"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(source, "docs", "site.zip"): packed}})
	if err != nil {
		return nil, err
	}
	err = errors.Join(os.WriteFile(packed, r.docs.data, 0o600), os.WriteFile(overlay, text, 0o600))
	return []string{"-tags", "docs", "-overlay", overlay}, err
}
