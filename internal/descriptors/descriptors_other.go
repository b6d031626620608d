//go:build unix && !linux

package descriptors

// CloseOnExec marks all descriptors from 3 on close-on-exec.
func CloseOnExec() { markAll("/dev/fd") }
