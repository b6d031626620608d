//go:build unix

package plugin

import (
	"fmt"
	"os"
	"syscall"
)

// ownedByUs refuses a folder of another user.
func ownedByUs(dir string, info os.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, not to %d", dir, stat.Uid, os.Geteuid())
	}
	return nil
}
