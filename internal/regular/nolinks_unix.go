//go:build unix

package regular

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// openNoLinks opens the file at an absolute path without following links. It opens each folder relative to
// its parent.
func openNoLinks(path string, flag int) (*os.File, error) {
	dir, err := unix.Open("/", folderFlags, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	names := strings.Split(strings.TrimPrefix(filepath.Clean(path), "/"), "/")
	for i, name := range names {
		flags := folderFlags
		if i == len(names)-1 {
			flags = flag | unix.O_CLOEXEC
		}
		next, err := openAt(dir, name, flags|unix.O_NOFOLLOW)
		_ = unix.Close(dir)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		dir = next
	}
	return os.NewFile(uintptr(dir), path), nil
}

func openAt(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
