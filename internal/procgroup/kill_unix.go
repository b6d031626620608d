//go:build unix

package procgroup

import "syscall"

// Kill kills every process in the group of pid. It ignores an empty group.
func Kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// Attr makes a process the leader of a new group.
func Attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
