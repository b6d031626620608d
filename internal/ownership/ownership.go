// Package ownership detects files and folders that other users can change. Start at [Check] and
// [CheckPath].
//
// On systems without file modes, such as Windows, it accepts everything.
package ownership

import (
	"fmt"
	"os"
)

// PrivateDir creates dir if it does not exist. It returns an error if dir is not a folder, belongs
// to another user or is writable to others.
func PrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	return checkPrivate(dir, info)
}

// CheckDir returns an error if path is not a folder, or if other users can change it.
func CheckDir(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", path)
	}
	return Check(path, info)
}
