package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"path"
	"slices"
	"strings"
	"time"
)

// entry is a file of a package or an image, or a folder if its name ends with a slash.
type entry struct {
	name string // below the root, slash-separated; "" for the root itself
	data []byte
	mode int64 // 0 means 0644, and 0755 for folders
	user int   // user and group ID of the owner
}

func (e entry) folder() bool { return e.name == "" || strings.HasSuffix(e.name, "/") }

// inPath returns the programs as entries in usr/bin, for a package or an image.
func inPath(built []file) (entries []entry) {
	for _, f := range built {
		entries = append(entries, entry{name: "usr/bin/" + f.name, data: f.data, mode: mode(f)})
	}
	return entries
}

// packTree returns a tar file of the entries, sorted, with the folders that they need. Names begin
// with prefix, and all entries have the same time.
func packTree(prefix string, entries []entry, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range withParents(entries) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: prefix + e.name, Size: int64(len(e.data)), Mode: cmp.Or(e.mode, 0o644),
			Uid: e.user, Gid: e.user, ModTime: date, Format: tar.FormatUSTAR,
		}
		if e.user == 0 {
			header.Uname, header.Gname = "root", "root"
		}
		if e.folder() {
			header.Typeflag, header.Mode = tar.TypeDir, cmp.Or(e.mode, 0o755)
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// withParents returns the entries and the folders above them, sorted by name.
func withParents(entries []entry) []entry {
	all := slices.Clone(entries)
	known := make(map[string]bool)
	for _, e := range entries {
		known[e.name] = true
	}
	for _, e := range entries {
		for dir := path.Dir(strings.TrimSuffix(e.name, "/")); dir != "." && !known[dir+"/"]; dir = path.Dir(dir) {
			known[dir+"/"] = true
			all = append(all, entry{name: dir + "/"})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return all
}

// compressed returns data in the format of gzip, without name and time. level is a level of package gzip.
func compressed(data []byte, level int) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil, err
	}
	_, err = z.Write(data)
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}
