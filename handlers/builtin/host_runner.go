package builtin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/probe"
)

// drainGrace is how long output is still waited for after a command's process group
// was killed. Only a process that left the group can keep it from ending by then.
const drainGrace = 200 * time.Millisecond

// HostRunner is a [CommandRunner] whose commands run on the host, each as a process
// group of its own. When the command ends, its time is over or ctx ends, the whole
// group is killed: neither a hanging command nor what it started in the background
// outlives the attempt (kubernetes#110070). The zero value is ready to use.
//
// A descriptor that the program was started with, and that is not marked close-on-exec, is
// handed on to the command: a program that is started by others marks those, as prober does.
//
// Only Linux has all of that. On Windows the command alone is killed, what it started goes on,
// and an attempt waits for whoever holds its output.
type HostRunner struct {
	// Environment returns the working directory and the environment of a container's
	// commands: "" and nil stand for the agent's own. A nil Environment stands for
	// both. An error means that no command can run there now.
	Environment func(containerID string) (dir string, env []string, err error)
}

var _ CommandRunner = (*HostRunner)(nil)

// RunInContainer runs cmd; see [CommandRunner]. At most [probe.MaxOutput] bytes of
// its output are kept. A command that a signal ended has the exit status 128 + signal.
func (r *HostRunner) RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) {
	if timeout > 0 {
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
	output, killed, err := runGroup(ctx, c)
	if killed {
		err := endError(ctx, cmd, timeout)
		if late, ok := err.(*CommandTimeoutError); ok && c.ProcessState != nil {
			late.CPU = max(1, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
		}
		return output, err
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return output, &CommandExitError{procgroup.ExitStatus(exit.ProcessState)}
	}
	return output, err
}

// endError is the error of a command that ctx ended.
func endError(ctx context.Context, cmd []string, timeout time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &CommandTimeoutError{Command: cmd, Timeout: timeout}
	}
	return ctx.Err()
}

// command returns cmd, not started, in the container's surroundings.
func (r *HostRunner) command(containerID string, cmd []string) (*exec.Cmd, error) {
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
	return &exec.Cmd{Path: path, Args: cmd, Dir: dir, Env: env, SysProcAttr: procgroup.Attr()}, nil
}

// lookPath finds the program name by the PATH of env rather than of the agent. A
// name with a slash is relative to dir, as it would be in a container.
//
// On Windows the agent's own Path and PATHEXT say where a name is: files have no mode
// that says which can be run.
func lookPath(name, dir string, env []string) (string, error) {
	windows := runtime.GOOS == "windows"
	if strings.Contains(name, "/") || windows && strings.Contains(name, `\`) {
		return name, nil // the child looks for it after it has changed to dir
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

// runGroup runs c in its own process group until it ends or ctx does, kills what is
// left of the group, and returns the head of stdout and stderr.
func runGroup(ctx context.Context, c *exec.Cmd) (output []byte, killed bool, err error) {
	var stdout, stderr capture
	if err = stdout.open(); err == nil {
		err = stderr.open()
	}
	if err == nil {
		c.Stdout, c.Stderr = stdout.write, stderr.write
		err = c.Start()
	}
	if err != nil {
		stdout.discard()
		stderr.discard()
		return nil, false, startError(err)
	}
	stdout.start()
	stderr.start()
	killed, err = procgroup.Wait(ctx, c)
	output = slices.Concat(stdout.finish(), stderr.finish())
	return output[:min(len(output), probe.MaxOutput)], killed, err
}

// startError is the error of a command that could not be started. It has the reason
// [probe.ReasonHostResources] where the host had no descriptor, memory or process for it.
func startError(err error) error {
	if probe.IsHostResources(err) || errors.Is(err, syscall.EAGAIN) {
		return &probe.Error{Reason: probe.ReasonHostResources, Err: err}
	}
	return err
}

// capture keeps the head of what is written to a pipe and drops the rest, so that
// the writer neither blocks nor costs memory.
type capture struct {
	read, write *os.File
	head        headBuffer
	wg          sync.WaitGroup
	late        bool // reading ended for want of time; to be read after wg
}

func (c *capture) open() (err error) {
	c.read, c.write, err = os.Pipe()
	return err
}

// discard closes a capture that was not started.
func (c *capture) discard() {
	if c.read != nil {
		_ = c.read.Close()
		_ = c.write.Close()
	}
}

// start begins to read. The other end is by now in the hands of the child.
func (c *capture) start() {
	_ = c.write.Close()
	c.head.limit = probe.MaxOutput
	c.wg.Go(func() {
		// Without os.File's own WriteTo, which would take a buffer eight times as large.
		_, err := io.CopyBuffer(&c.head, struct{ io.Reader }{c.read}, make([]byte, 4<<10))
		c.late = errors.Is(err, os.ErrDeadlineExceeded)
	})
}

// finish returns what was read once all writers are gone, or drainGrace is over.
func (c *capture) finish() []byte {
	_ = c.read.SetReadDeadline(time.Now().Add(drainGrace))
	c.wg.Wait()
	if c.late { // perhaps not for its writers: a busy machine may not have read what they wrote
		procgroup.Drain(c.read, &c.head, c.head.room())
	}
	_ = c.read.Close()
	return c.head.bytes
}

// headBuffer keeps the first limit bytes that are written to it; a limit below 0
// keeps none. The rest is dropped without an error, unlike in the kubelet's writer,
// since an error would stop the reading of a pipe and block its writer.
type headBuffer struct {
	limit int
	bytes []byte
}

// room returns how many bytes are still kept.
func (b *headBuffer) room() int { return max(0, b.limit-len(b.bytes)) }

func (b *headBuffer) Write(p []byte) (int, error) {
	if room := b.limit - len(b.bytes); room > 0 {
		b.bytes = append(b.bytes, p[:min(room, len(p))]...)
	}
	return len(p), nil
}
