//go:build unix && !linux

package procgroup

import "syscall"

// Attr makes a process the leader of a new group.
func Attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killRest kills what pid, which has ended, has left of its group.
func killRest(pid int) { Kill(pid) }
