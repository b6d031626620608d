//go:build unix

package main

import "syscall"

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the process group of pid, which may have no processes left.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
