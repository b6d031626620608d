//go:build unix

package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// private returns an error where others than root and the user who runs the agent may read
// or change a file.
func private(info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("mode %04o lets other users read or change it; it must be 0600", mode)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return errors.New("it belongs to another user")
	}
	return nil
}
