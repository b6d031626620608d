//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

// Package statelock prevents two agents from using the same state directory.
package statelock

import "os"

// Lock returns nil, as this system has no flock.
func Lock(string) (*os.File, error) { return nil, nil }
