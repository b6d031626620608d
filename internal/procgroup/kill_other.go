//go:build !unix

package procgroup

import (
	"os"
	"syscall"
)

// Attr returns nil: this system has no process groups.
func Attr() *syscall.SysProcAttr { return nil }

// Kill kills only pid.
func Kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// Signal sends a signal to pid only.
func Signal(pid int, s syscall.Signal) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Signal(s)
	}
}

// ExitStatus returns the exit code of a process.
func ExitStatus(s *os.ProcessState) int { return s.ExitCode() }
