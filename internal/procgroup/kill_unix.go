//go:build unix

package procgroup

import "syscall"

// Kill kills every process of the group of pid. An empty group is ignored.
func Kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// Attr makes a process the leader of a new group.
func Attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
