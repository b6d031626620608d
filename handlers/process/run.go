package process

import (
	"context"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/procgroup"
)

// checkEnvironment is what a check has in its environment, beside what it is configured
// to have.
func checkEnvironment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
}

// result is how a run has ended.
type result struct {
	code           int // -1 of a run that a signal has ended
	state          string
	stdout, stderr string
	more           bool          // there was more output than was kept
	held           bool          // somebody has not let go of the output
	killed         bool          // by us, at the end of the context
	cpu            time.Duration // of the program, without its children
}

// runCommand runs a program once. At the end of ctx, and in any case when the program has
// ended, its whole process group is killed. It reads stdin, and at most limit bytes of its
// output are kept. The error means that it could not be started.
func runCommand(ctx context.Context, c *command, args, env []string, stdin string, limit int) (*result, error) {
	cmd := &exec.Cmd{Path: c.path, Args: args, Env: env, Dir: "/", SysProcAttr: procgroup.BoundAttr()}
	if c.program != nil {
		cmd.Path, cmd.ExtraFiles = c.program.Command()
	}
	stdout, stderr := newCapture(limit), newCapture(limit)
	if err := stdout.open(); err != nil {
		return nil, err
	}
	if err := stderr.open(); err != nil {
		stdout.discard()
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = stdout.write, stderr.write
	in, err := newFeed(stdin)
	if err != nil {
		stdout.discard()
		stderr.discard()
		return nil, err
	}
	defer in.close()
	if in != nil {
		cmd.Stdin = in.read
	}
	r := new(result)
	started := false
	r.killed, err = procgroup.Run(ctx, cmd, func() {
		started = true
		stdout.start()
		stderr.start()
		in.start()
	})
	if !started {
		stdout.discard()
		stderr.discard()
		return nil, err
	}
	deadline := time.Now().Add(outputGrace)
	stdout.endAt(deadline)
	stderr.endAt(deadline) // before the other is waited for
	r.stdout, r.stderr = stdout.finish(), stderr.finish()
	r.more, r.held = stdout.more || stderr.more, stdout.held || stderr.held
	r.code, r.state = cmd.ProcessState.ExitCode(), cmd.ProcessState.String()
	r.cpu = max(1, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	return r, nil
}

// capture keeps the head of what is written to a pipe and drops the rest, so that the
// writer never waits.
type capture struct {
	limit       int
	read, write *os.File
	kept        []byte
	dropped     pace
	more, held  bool
	wg          sync.WaitGroup
}

func newCapture(limit int) *capture { return &capture{limit: limit, dropped: pace{rate: pipeRate}} }

func (c *capture) open() (err error) {
	c.read, c.write, err = os.Pipe()
	return err
}

// discard closes a capture that was not started.
func (c *capture) discard() {
	_ = c.read.Close()
	_ = c.write.Close()
}

// start begins to read. The other end is by now in the hands of the child.
func (c *capture) start() {
	_ = c.write.Close()
	c.wg.Go(func() {
		_, err := io.CopyBuffer(c, &tail{file: c.read}, make([]byte, 4<<10))
		c.held = err != nil
	})
}

// endAt sets until when writers are waited for: only one that left the process group can be
// there still.
func (c *capture) endAt(deadline time.Time) { _ = c.read.SetReadDeadline(deadline) }

// finish returns what was read once all writers are gone, or at the deadline.
func (c *capture) finish() string {
	c.wg.Wait()
	_ = c.read.Close()
	return string(c.kept)
}

// Write implements [io.Writer].
func (c *capture) Write(p []byte) (int, error) {
	room := c.limit - len(c.kept)
	c.kept = append(c.kept, p[:min(room, len(p))]...)
	c.more = c.more || room < len(p)
	c.dropped.add(len(p) - min(room, len(p)))
	return len(p), nil
}

// feed is what a command reads on standard input. A nil feed is none.
type feed struct {
	text        string
	read, write *os.File
	wg          sync.WaitGroup
}

func newFeed(text string) (*feed, error) {
	if text == "" {
		return nil, nil
	}
	f := &feed{text: text}
	var err error
	f.read, f.write, err = os.Pipe()
	return f, err
}

// start begins to write. The other end is by now in the hands of the child.
func (f *feed) start() {
	if f == nil {
		return
	}
	f.wg.Go(func() {
		_, _ = f.write.WriteString(f.text) // a command need not read it
		_ = f.write.Close()
	})
	_ = f.read.Close()
}

// close ends the writing, however much was read.
func (f *feed) close() {
	if f == nil {
		return
	}
	_ = f.read.Close() // in most cases for the second time
	_ = f.write.Close()
	f.wg.Wait()
}
