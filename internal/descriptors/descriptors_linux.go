package descriptors

import (
	"math"
	"syscall"
)

// Constants of close_range(2). The number is the same on every processor except MIPS, where it is unused.
const (
	sysCloseRange     = 436
	closeRangeCloexec = 1 << 2
)

// CloseOnExec marks all descriptors from 3 on as close-on-exec.
func CloseOnExec() {
	if _, _, errno := syscall.Syscall(sysCloseRange, 3, math.MaxUint32, closeRangeCloexec); errno != 0 { // before Linux 5.11
		closeOnExec("/proc/self/fd")
	}
}
