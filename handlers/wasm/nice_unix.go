//go:build unix

package wasm

import (
	"syscall"
	"time"
)

// beNice leaves the processor to others.
func beNice() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 5) }

// processorTime is how long this process has had a processor.
func processorTime(time.Time) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
