//go:build unix

package procgroup

import (
	"os"
	"syscall"
)

// Kill kills every process in the group of pid. It ignores an empty group.
func Kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// Signal sends a signal to every process in the group of pid. It ignores an empty group.
func Signal(pid int, s syscall.Signal) { _ = syscall.Kill(-pid, s) }

// Attr makes a process the leader of a new group.
func Attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// ExitStatus returns the exit code of a process as a shell does: 128 + n if signal n ended it.
func ExitStatus(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
