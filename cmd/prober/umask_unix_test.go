//go:build unix

package main

import "syscall"

// Keys and locks that a group can write to are refused: whoever runs the tests may have a
// umask that makes such files.
func init() { syscall.Umask(0o022) }
