//go:build unix

package descriptors

import (
	"os"
	"strconv"
	"syscall"
)

// mostWithoutList is how many descriptors are marked where they are not listed.
const mostWithoutList = 4096

// markAll marks the descriptors that dir lists: the system's folder of those of a process.
func markAll(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		for fd := 3; fd < mostWithoutList; fd++ {
			syscall.CloseOnExec(fd)
		}
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
