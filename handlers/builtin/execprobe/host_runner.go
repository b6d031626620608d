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

// HostRunner is a [CommandRunner] that runs commands on the host, each in its own process group. When
// the command ends, its timeout passes or ctx ends, the whole group is killed. So neither a hanging
// command nor its background processes outlive the attempt (kubernetes#110070). The zero value is ready
// to use.
//
// A command inherits the descriptors that this program was started with, unless they are close-on-exec.
// A program that does not control how it is started should set the flag, as prober does.
//
// On Windows only the command is killed. Processes that it has started continue.
type HostRunner struct {
	// Environment returns the working directory and the environment of a container's commands. ""
	// and nil mean the agent's own, and so does a nil Environment. An error means that no command can
	// run there at present.
	Environment func(containerID string) (dir string, env []string, err error)
	// User returns the user of a container's commands. A nil result means the agent's own user, and
	// so does a nil User. Only an agent that runs as root on Linux can run commands as another user.
	User func(containerID string) (*User, error)
}

// User is the user, the group and the supplementary groups of a command.
type User = procgroup.User

var _ CommandRunner = (*HostRunner)(nil)

// RunInContainer runs cmd, see [CommandRunner]. It keeps at most [probe.MaxOutput] bytes of the output.
// If signal n ended the command, the exit status is 128 + n.
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

// endError returns the error of a command that was killed at the end of ctx.
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

// lookPath finds the program called name in the PATH of env, not in the agent's PATH. A name with a slash
// is relative to dir, as in a container.
//
// On Windows it uses the agent's own Path and PATHEXT, because files have no executable mode.
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

// startError returns err, the error of a failed start, with the reason [probe.ReasonHostResources] if the
// host lacked a descriptor, memory or a process.
func startError(err error) error {
	if probe.HostReason(err) == probe.ReasonHostResources || errors.Is(err, syscall.EAGAIN) {
		return &probe.Error{Reason: probe.ReasonHostResources, Err: err}
	}
	return err
}
