//go:build !unix

package procgroup

import (
	"os"
	"syscall"
)

// Attr returns nil: this system has no process groups.
func Attr() *syscall.SysProcAttr { return nil }

// Kill kills only pid.
func Kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
