package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/daeace23/prober/internal/abi"
)

// walk opens a path, after its links, folder by folder. A folder that is replaced by a symbolic link meanwhile is an
// error.
func walk(path string, allowed func(string) error) (*node, error) {
	resolved, err := filepath.EvalSymlinks(filepath.FromSlash(path))
	if err != nil {
		return nil, err
	}
	resolved = filepath.ToSlash(resolved[len(filepath.VolumeName(resolved)):])
	if resolved != path {
		if err := allowed(resolved); err != nil {
			return nil, &LinkError{path, resolved, err}
		}
	}
	return walkResolved(resolved)
}

// walkResolved opens a path without links.
func walkResolved(path string) (*node, error) {
	root, err := os.OpenRoot(string(filepath.Separator))
	if err != nil {
		return nil, err
	}
	rest := strings.TrimPrefix(path, "/")
	for {
		first, next, more := strings.Cut(rest, "/")
		if !more {
			break
		}
		inner, err := enter(root, first)
		root.Close()
		if err != nil {
			return nil, err
		}
		root, rest = inner, next
	}
	if rest == "" {
		rest = "."
	}
	info, err := root.Lstat(rest)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = errMoved
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return &node{
		info: info, close: func() { root.Close() },
		open:   func() (file, error) { return openIn(root, rest, info) },
		statfs: func() (abi.FilesystemInfo, error) { return abi.FilesystemInfo{}, errors.ErrUnsupported },
	}, nil
}

// enter opens a folder below root that is not a link.
func enter(root *os.Root, name string) (*os.Root, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	inner, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := inner.Stat(".")
	if err == nil && !os.SameFile(before, after) {
		err = errMoved
	}
	if err != nil {
		inner.Close()
		return nil, err
	}
	return inner, nil
}

// openIn opens the file that info describes.
func openIn(root *os.Root, name string, info fs.FileInfo) (file, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && (!os.SameFile(info, opened) || opened.Mode().Type() != info.Mode().Type()) {
		err = errMoved
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
