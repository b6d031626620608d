//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package agent

import "os"

// lockState returns nil: this system has no flock.
func lockState(string) (*os.File, error) { return nil, nil }
