//go:build unix && !linux

package descriptors

// CloseOnExec marks all descriptors from 3 on as close-on-exec.
func CloseOnExec() { closeOnExec("/dev/fd") }
