//go:build unix

package files

import (
	"io/fs"
	"syscall"
)

const nonBlocking = syscall.O_NONBLOCK

// owner returns the user and the group of a file.
func owner(info fs.FileInfo) (uid, gid int) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return int(st.Uid), int(st.Gid)
}
