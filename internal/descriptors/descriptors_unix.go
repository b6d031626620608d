//go:build unix

// Package descriptors keeps programs from inheriting the file descriptors that this program was
// started with, except its three streams. Files that Go opens are never inherited.
package descriptors

import (
	"os"
	"strconv"
	"syscall"
)

// mostUnlisted is how many descriptors are marked if the system does not list them.
const mostUnlisted = 4096

// closeOnExec marks the descriptors that the folder dir lists.
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
