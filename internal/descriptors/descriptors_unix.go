//go:build unix

// Package descriptors keeps programs from inheriting the file descriptors that this program was
// started with, except its three streams. Files that Go opens are never inherited.
package descriptors

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// mostUnlisted is how many descriptors are marked if the system does not list them.
const mostUnlisted = 4096

// CloseOnExec marks all descriptors from 3 on as close-on-exec.
func CloseOnExec() {
	if runtime.GOOS == "linux" {
		closeOnExec("/proc/self/fd")
	} else {
		closeOnExec("/dev/fd")
	}
}

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
