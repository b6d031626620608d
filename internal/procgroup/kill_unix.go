//go:build unix

package procgroup

import "syscall"

// Kill kills every process of the group of pid. That the group is empty is not an error.
func Kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
