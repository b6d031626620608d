//go:build unix

package wasm

import (
	"syscall"
	"time"
)

// beNice lowers the scheduling priority of this process.
func beNice() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 5) }

// processorTime returns the processor time that this process has used.
func processorTime(time.Time) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
