//go:build unix

package pushcmd

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// foreground reports whether this process is in the foreground of a terminal, which sends its signals to the
// command too.
func foreground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
