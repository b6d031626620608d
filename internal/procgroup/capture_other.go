//go:build !linux

package procgroup

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// Capture runs c in its own process group until it ends or ctx ends, and then kills the rest of
// the group. It keeps the first limit bytes of stdout and of stderr each. It returns an error only if the command
// could not be started, as [exec.Cmd.Start] does. A process that has left the group is not killed, and its output
// is read for at most [OutputGrace].
func Capture(ctx context.Context, c *Command, limit int) (*Captured, error) {
	if c.User != nil {
		return nil, fmt.Errorf("another user: %w", errors.ErrUnsupported)
	}
	stdout, stderr := &Head{Limit: limit}, &Head{Limit: limit}
	cmd := &exec.Cmd{Path: c.Path, Args: c.Args, Dir: c.Dir, Env: c.Env, Stdout: stdout, Stderr: stderr, WaitDelay: OutputGrace, SysProcAttr: Attr()}
	killed, err := Run(ctx, cmd, nil)
	if cmd.ProcessState == nil {
		return nil, err
	}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, err
	}
	return &Captured{
		Stdout: stdout.Bytes, Stderr: stderr.Bytes, Killed: killed,
		Status: ExitStatus(cmd.ProcessState), CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
	}, nil
}
