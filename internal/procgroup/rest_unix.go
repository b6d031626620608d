//go:build unix && !linux

package procgroup

import "syscall"

// Attr makes a process the leader of a new group.
func Attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killRest kills what is left of the group of pid, which has ended.
func killRest(pid int) { Kill(pid) }
