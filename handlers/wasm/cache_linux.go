package wasm

import (
	"io/fs"
	"syscall"
	"time"
)

// lastUsed returns when a file was last read or written. Most systems update the time of the last
// read only once a day.
func lastUsed(info fs.FileInfo) time.Time {
	used := info.ModTime()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		if read := time.Unix(stat.Atim.Unix()); read.After(used) {
			used = read
		}
	}
	return used
}
