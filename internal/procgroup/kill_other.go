//go:build !unix

package procgroup

import (
	"os"
	"syscall"
)

// Attr does nothing: there are no groups here.
func Attr() *syscall.SysProcAttr { return nil }

// Kill kills pid alone.
func Kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// killRest does nothing: the number of pid, which has ended, may be another's.
func killRest(int) {}
