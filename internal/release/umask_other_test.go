//go:build !unix

package main

import "testing"

// setUmask does nothing: the system has no umask.
func setUmask(*testing.T, int) {}
