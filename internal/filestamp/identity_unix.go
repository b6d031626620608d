//go:build unix

package filestamp

import (
	"os"
	"syscall"
)

func identityOf(info os.FileInfo) identity {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{device: uint64(s.Dev), inode: uint64(s.Ino), owner: s.Uid, changed: changed(s)}
	}
	return identity{}
}
