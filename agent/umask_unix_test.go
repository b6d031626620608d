//go:build unix

package agent_test

import "syscall"

// Keys and locks that a group can write to are refused, and the user who runs the tests may have a umask that
// allows it.
func init() { syscall.Umask(0o022) }
