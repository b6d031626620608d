//go:build unix

package trust_test

import "syscall"

func init() {
	pipes = append(pipes, unreadable{"a named pipe", "not a regular file", func(path string) error { return syscall.Mkfifo(path, 0o600) }})
}
