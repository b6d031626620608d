//go:build !unix

package ownership

import (
	"errors"
	"io/fs"
	"os"
)

// OpenFile is [os.OpenFile] without truncation.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag&^os.O_TRUNC, perm)
}

// OwnDir creates dir if it does not exist.
func OwnDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
