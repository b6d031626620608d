//go:build unix && !linux

package process

import "syscall"

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills every process of the group of pid. That the group is empty is no error.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// killRest kills what pid, which has ended, has left of its group.
func killRest(pid int) { killGroup(pid) }
