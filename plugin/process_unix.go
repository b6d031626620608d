//go:build unix

package plugin

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
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
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch perm := info.Mode().Perm(); {
	case perm&0o022 != 0:
		return fmt.Errorf("%s is writable to others (mode %#o): anyone of them could run what they like; chmod go-w keeps them out", name, perm)
	case ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d: want root or the user that runs prober", name, owner.Uid)
	}
	return nil
}
