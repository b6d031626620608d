//go:build unix

package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// OpenFile opens a private file of this program, with the flags of [os.OpenFile]; see [OwnDir] for its
// folder. It does not follow a link at path, does not truncate the file, and does not wait for a pipe. It returns an
// [*fs.PathError] for a file that is not regular, belongs to another user than this one or root, or is writable
// by everybody, since others may have prepared the folder.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag&^os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if err != nil {
		if info, failed := os.Lstat(path); failed == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("it is a symbolic link, which is not followed")}
		}
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	default:
		err = checkOwn(path, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// OwnDir creates dir with mode 0700 if it does not exist. Its parent must exist. It returns the errors of [OpenFile],
// for a folder.
func OwnDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return &fs.PathError{Op: "open", Path: dir, Err: errors.New("it is a symbolic link, which is not followed")}
	case !info.IsDir():
		return &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return checkOwn(dir, info)
}

// checkOwn checks the owner of a file or folder, and that it is not writable by everybody. It may be writable by its
// group, as volumes of Kubernetes are.
func checkOwn(path string, info fs.FileInfo) error {
	if err := checkOwner(path, info); err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if mode := info.Mode().Perm(); mode&0o002 != 0 {
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("mode %#o lets everybody change it", mode)}
	}
	return nil
}
