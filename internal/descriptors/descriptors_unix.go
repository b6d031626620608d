//go:build unix

// Package descriptors prevents child processes from inheriting file descriptors with which this program was
// started, except the three standard streams. Files that Go opens are never inherited.
package descriptors

import (
	"os"
	"strconv"
	"syscall"
)

// mostUnlisted is the number of descriptors that are marked if the system cannot list the open ones.
const mostUnlisted = 4096

// closeOnExec marks the descriptors listed in the folder dir.
func closeOnExec(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		for fd := 3; fd < mostUnlisted; fd++ {
			syscall.CloseOnExec(fd)
		}
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
