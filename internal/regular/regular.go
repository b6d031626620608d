// Package regular reads files whose paths come from outside: manifests, references to secrets,
// plugins, keys. It reads only regular files, since a named pipe could block, and limits their
// size. [Replace] writes a file atomically.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular is the error for a folder, a named pipe, a socket or a device.
var ErrNotRegular = errors.New("not a regular file")

// TooLargeError is the error for a file with more bytes than may be read.
type TooLargeError struct{ Max int64 }

// Error returns "more than N bytes".
func (e *TooLargeError) Error() string { return fmt.Sprintf("more than %d bytes", e.Max) }

// Open opens the regular file at path for reading, and follows symbolic links. Its error is an
// [*fs.PathError], which matches [ErrNotRegular] if path is not a regular file.
func Open(path string) (*os.File, error) {
	return open(path, os.Stat, func(path string, flag int) (*os.File, error) { return os.OpenFile(path, flag, 0) })
}

// OpenIn is [Open] for the file called name in root. It does not follow links out of root.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	return open(name, root.Stat, func(name string, flag int) (*os.File, error) { return root.OpenFile(name, flag, 0) })
}

func open(path string, stat func(string) (fs.FileInfo, error), openFile func(string, int) (*os.File, error)) (*os.File, error) {
	info, err := stat(path)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, &fs.PathError{Op: "open", Path: e.Path, Err: e.Err}
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(path)
	}
	// The file may have been replaced since Stat, and opening a named pipe must not block.
	f, err := openFile(path, os.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = notRegular(path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Read returns the contents of the regular file at path. Its error is an [*fs.PathError], which
// matches [ErrNotRegular] or [*TooLargeError] if the file is not regular or has more than most
// bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, path, most)
}

// ReadIn is [Read] for the file called name in root. It does not follow links out of root.
func ReadIn(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := OpenIn(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, name, most)
}

// ReadNoLinks is [Read] for the file at an absolute path without symbolic links in any part. So the result of an
// earlier check of the path applies to the file that is read.
func ReadNoLinks(path string, most int64) ([]byte, error) {
	f, err := open(path, os.Lstat, openNoLinks)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, path, most)
}

// ReadAll returns the remaining bytes of from. More than most bytes are an error. path is for errors.
func ReadAll(from io.Reader, path string, most int64) ([]byte, error) {
	data := bytes.NewBuffer(make([]byte, 0, room(from, most)))
	if _, err := data.ReadFrom(io.LimitReader(from, most+1)); err != nil {
		return nil, err
	}
	if int64(data.Len()) > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: &TooLargeError{most}}
	}
	return data.Bytes(), nil
}

// room returns the initial capacity of the buffer for from, so that a growing slice does not copy a large file
// several times.
func room(from io.Reader, most int64) int64 {
	size := int64(0)
	if f, ok := from.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = min(info.Size(), most)
		}
	}
	return size + bytes.MinRead // ReadFrom needs this free space at the end
}

func notRegular(path string) error {
	return &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
}
