//go:build !unix

package plugincmd

import "os/exec"

// inGroup does nothing: without process groups cmd alone is killed when its context ends.
func inGroup(*exec.Cmd) {}
