package execprobe

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/probe"
)

// HostRunner is a [CommandRunner] whose commands run on the host, each in a process
// group of its own. When the command ends, its time is over or ctx ends, the whole
// group is killed: neither a hanging command nor what it started in the background
// outlives the attempt (kubernetes#110070). The zero value is ready to use.
//
// A command inherits the descriptors that this program was started with and that are not
// close-on-exec. A program that others start marks them, as prober does.
//
// On Windows only the command is killed, and what it started continues.
type HostRunner struct {
	// Environment returns the working directory and the environment of a container's
	// commands: "" and nil mean the agent's own. A nil Environment means both. An error
	// means that no command can run there now.
	Environment func(containerID string) (dir string, env []string, err error)
	// User returns the user of a container's commands, nil for the agent's own. A nil User means
	// that too. Only an agent that is root can run commands of others, and only on Linux.
	User func(containerID string) (*User, error)
}

// User is the user, the group and the supplementary groups of a command.
type User = procgroup.User

var _ CommandRunner = (*HostRunner)(nil)

// RunInContainer runs cmd; see [CommandRunner]. At most [probe.MaxOutput] bytes of
// its output are kept. A command that signal n ended has the exit status 128 + n.
func (r *HostRunner) RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) {
	if at, ok := ctx.Deadline(); timeout > 0 && (!ok || time.Until(at) > timeout) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if ctx.Err() != nil {
		return nil, endError(ctx, cmd, timeout)
	}
	c, err := r.command(containerID, cmd)
	if err != nil {
		return nil, err
	}
	end, err := procgroup.Capture(ctx, c, probe.MaxOutput)
	if err != nil {
		return nil, startError(err)
	}
	output := end.Output(probe.MaxOutput)
	switch {
	case end.Killed:
		err := endError(ctx, cmd, timeout)
		if late, ok := err.(*CommandTimeoutError); ok {
			late.CPU = max(1, end.CPU)
		}
		return output, err
	case end.Status != 0:
		return output, &CommandExitError{end.Status}
	default:
		return output, nil
	}
}

// endError returns the error of a command that ctx ended.
func endError(ctx context.Context, cmd []string, timeout time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &CommandTimeoutError{Command: cmd, Timeout: timeout}
	}
	return ctx.Err()
}

// command returns cmd in the container's environment.
func (r *HostRunner) command(containerID string, cmd []string) (*procgroup.Command, error) {
	if len(cmd) == 0 {
		return nil, errors.New("no command")
	}
	var dir string
	var env []string
	if r.Environment != nil {
		var err error
		if dir, env, err = r.Environment(containerID); err != nil {
			return nil, err
		}
	}
	path, err := lookPath(cmd[0], dir, env)
	if err != nil {
		return nil, err
	}
	c := &procgroup.Command{Path: path, Args: cmd, Dir: dir, Env: env}
	if r.User != nil {
		c.User, err = r.User(containerID)
	}
	return c, err
}

// lookPath finds the program called name in the PATH of env rather than of the agent. A
// name with a slash is relative to dir, as it would be in a container.
//
// On Windows it uses the agent's own Path and PATHEXT: files have no executable mode.
func lookPath(name, dir string, env []string) (string, error) {
	windows := runtime.GOOS == "windows"
	if strings.Contains(name, "/") || windows && strings.Contains(name, `\`) {
		return name, nil // the child looks it up after it has changed to dir
	}
	if env == nil || windows {
		return exec.LookPath(name)
	}
	var path string
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	for _, folder := range filepath.SplitList(path) {
		file := filepath.Join(cmp.Or(folder, "."), name)
		at := file
		if !filepath.IsAbs(file) {
			at = filepath.Join(dir, file)
		}
		if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return at, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// startError returns err, the error of a command that could not be started. It gets the reason
// [probe.ReasonHostResources] if the host lacked a descriptor, memory or a process.
func startError(err error) error {
	if probe.HostReason(err) == probe.ReasonHostResources || errors.Is(err, syscall.EAGAIN) {
		return &probe.Error{Reason: probe.ReasonHostResources, Err: err}
	}
	return err
}
