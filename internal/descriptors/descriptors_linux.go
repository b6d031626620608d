package descriptors

import (
	"math"

	"golang.org/x/sys/unix"
)

// CloseOnExec marks all descriptors from 3 on as close-on-exec.
func CloseOnExec() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) != nil { // before Linux 5.11
		closeOnExec("/proc/self/fd")
	}
}
