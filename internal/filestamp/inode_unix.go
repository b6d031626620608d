//go:build unix

package filestamp

import (
	"os"
	"syscall"
)

// inode returns the number of a file, which differs from that of a file with the same size and
// time that replaced it, and the user ID of its owner.
func inode(info os.FileInfo) (number uint64, owner uint32) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino), s.Uid
	}
	return 0, 0
}
