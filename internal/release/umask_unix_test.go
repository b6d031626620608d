//go:build unix

package main

import (
	"syscall"
	"testing"
)

// setUmask sets the umask of the process until the test ends.
func setUmask(t *testing.T, mask int) {
	before := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(before) })
}
