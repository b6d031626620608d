//go:build !wasip1

package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/daeace23/prober/internal/abi"
)

// StatFile describes a file of the host. It needs the capability "files", as do the other functions for files. path is
// absolute, without . and .. in it. A native program has the files of [Host].Files alone.
func StatFile(ctx context.Context, path string) (FileInfo, error) {
	info, err := fs.Stat(nativeFiles(ctx), nativePath(path))
	if err != nil {
		return FileInfo{}, err
	}
	return FileInfo{Type: nativeType(info.Mode()), Size: info.Size(), Mode: int(info.Mode().Perm()), Modified: info.ModTime()}, nil
}

// StatFilesystem returns the numbers of the file system of a path. Native programs do not support it.
func StatFilesystem(_ context.Context, path string) (FilesystemInfo, error) {
	return FilesystemInfo{}, fmt.Errorf("statfs %s: %w", path, errors.ErrUnsupported)
}

// ListFolder returns the entries of a folder of the host, sorted by name.
func ListFolder(ctx context.Context, path string) (all []FileEntry, err error) {
	entries, err := fs.ReadDir(nativeFiles(ctx), nativePath(path))
	for _, e := range entries {
		all = append(all, FileEntry{Name: e.Name(), Type: nativeType(e.Type())})
	}
	return all, err
}

// ReadFile reads a regular file of the host from an offset on, and returns the number of bytes. At the end of the file
// it is 0.
func ReadFile(ctx context.Context, path string, offset int64, buf []byte) (int, error) {
	f, err := nativeFiles(ctx).Open(nativePath(path))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := io.CopyN(io.Discard, f, offset); err == io.EOF {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	n, err := io.ReadFull(f, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return n, err
}

func nativeFiles(ctx context.Context) fs.FS {
	if files := hostOf(ctx).Files; files != nil {
		return files
	}
	return noFiles{}
}

// noFiles is a host without files.
type noFiles struct{}

// Open implements [fs.FS].
func (noFiles) Open(name string) (fs.File, error) {
	return nil, fmt.Errorf("file /%s: a native program has no files of a host: %w", name, errors.ErrUnsupported)
}

// nativePath returns a path as package fs has it.
func nativePath(path string) string {
	if path == "/" {
		return "."
	}
	return strings.TrimPrefix(path, "/")
}

func nativeType(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return abi.TypeFile
	case mode.IsDir():
		return abi.TypeDirectory
	case mode&fs.ModeSymlink != 0:
		return abi.TypeSymlink
	}
	return abi.TypeOther
}
