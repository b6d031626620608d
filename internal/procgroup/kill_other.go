//go:build !unix

package procgroup

import (
	"os"
	"syscall"
)

// Attr returns nil: there are no process groups here.
func Attr() *syscall.SysProcAttr { return nil }

// Kill kills pid alone.
func Kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
