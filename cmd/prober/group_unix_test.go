//go:build unix

package main

import "syscall"

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the processes of the group of pid, of which none may be left.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
