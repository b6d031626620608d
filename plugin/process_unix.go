//go:build unix

package plugin

import (
	"fmt"
	"io/fs"
)

// checkOwn says why a file is not one to run.
func checkOwn(name string, info fs.FileInfo, mode fs.FileMode) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", name)
	}
	if err := checkOwner(name, info); err != nil {
		return err
	}
	if info.Mode().Perm()&mode != mode {
		return fmt.Errorf("%s is not executable", name)
	}
	return nil
}

// checkOwner says who else could change a file or folder.
func checkOwner(name string, info fs.FileInfo) error {
	if err := OnlyOwnerWrites(name, info); err != nil {
		return err
	}
	return belongsToUs(name, info)
}
