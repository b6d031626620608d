package process

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/procgroup"
)

// checkEnvironment returns the environment of a check, without the configured variables.
func checkEnvironment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
}

// result is the result of a run.
type result struct {
	code           int // -1 if a signal ended the run
	state          string
	stdout, stderr string
	more           bool          // some output was dropped
	held           bool          // a process outside of the group still held the output open
	killed         bool          // killed because the context ended
	cpu            time.Duration // processor time of the program, without its children
}

// runCommand runs a program once with stdin as its standard input. It keeps at most limit bytes of
// standard output and of standard error. It kills the whole process group when ctx ends, and when the
// program has ended. An error means that the program could not be started.
func runCommand(ctx context.Context, c *command, args, env []string, stdin string, limit int) (*result, error) {
	stdout, stderr := &procgroup.Head{Limit: limit}, &procgroup.Head{Limit: limit}
	cmd := &exec.Cmd{
		Path: c.path, Args: args, Env: env, Dir: "/", Stdout: stdout, Stderr: stderr,
		WaitDelay: procgroup.OutputGrace, SysProcAttr: procgroup.BoundAttr(),
	}
	if c.program != nil {
		cmd.Path, cmd.ExtraFiles = c.program.Command()
	}
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	killed, err := procgroup.Run(ctx, cmd, nil)
	if cmd.ProcessState == nil {
		return nil, err
	}
	return &result{
		code: cmd.ProcessState.ExitCode(), state: cmd.ProcessState.String(), stdout: string(stdout.Bytes), stderr: string(stderr.Bytes),
		more: stdout.More || stderr.More, held: stdout.Open || stderr.Open, killed: killed,
		cpu: max(1, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()),
	}, nil
}
