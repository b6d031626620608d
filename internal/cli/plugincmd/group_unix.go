//go:build unix

package plugincmd

import (
	"os/exec"
	"syscall"
)

// inGroup makes cmd the leader of a process group, which is killed as a whole when the
// context of cmd ends.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
