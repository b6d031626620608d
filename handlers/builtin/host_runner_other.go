//go:build !linux

package builtin

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// waitGroup waits for the end of c and kills it at the end of ctx. Elsewhere than on
// Linux, what c started in the background is left to itself.
func waitGroup(ctx context.Context, c *exec.Cmd) (killed bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Kill() })
	err = c.Wait()
	return !stop(), err
}

func exitStatus(s *os.ProcessState) int { return s.ExitCode() }

// drain does nothing: what was not read in time is lost.
func drain(*os.File, *headBuffer) {}
