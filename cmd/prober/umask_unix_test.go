//go:build unix

package main

import "syscall"

// Prober refuses keys and locks that a group can write to. The user's umask could create such files.
func init() { syscall.Umask(0o022) }
