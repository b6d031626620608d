//go:build unix

package plugin

import (
	"fmt"
	"os"
	"syscall"
)

// onlyOurs refuses a folder that is writable to others or that belongs to another user.
func onlyOurs(dir string, info os.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s is writable to others (mode %#o); it must be private (0700)", dir, mode)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, not to %d", dir, stat.Uid, os.Geteuid())
	}
	return nil
}
