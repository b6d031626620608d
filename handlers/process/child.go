package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/daeace23/prober/handlers/process/internal/sealed"
	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/plugin"
)

// maxHello is the most bytes of the line by which a process says where it listens.
const maxHello = 16 << 10

// outputGrace is how long output is still read after a process has ended, and once more, see
// [tail]. Only one that left its group can go on writing.
const outputGrace = 200 * time.Millisecond

// tail reads what a process writes, to the end that a deadline sets when it has ended. What
// is there by then is read, also where nobody has come to look in time: a machine may stand
// still meanwhile.
type tail struct {
	file *os.File
	late bool // the deadline has come, and was put off
}

// Read implements [io.Reader].
func (t *tail) Read(p []byte) (int, error) {
	n, err := t.file.Read(p)
	if t.late || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	t.late = true
	_ = t.file.SetReadDeadline(time.Now().Add(outputGrace))
	return t.file.Read(p)
}

// child is one process. It leads a group of its own, which is killed as a whole, and what
// has left that is found by its mark. Of what it writes, go-plugin gets to see the first
// line; the rest goes to the log.
type child struct {
	cmd   *exec.Cmd
	mark  string // in its environment
	lines *lineLog
	hello *io.PipeReader

	stdin, stdout, stderr *os.File // our ends
	theirs                []*os.File
	streams               sync.WaitGroup
	exited                chan struct{}
	err                   error // of Wait; read-only once exited is closed

	mu      sync.Mutex
	started bool
	killed  bool // perhaps before it was started
	reaped  bool // its number may be another's
}

var _ runner.Runner = (*child)(nil)

// newChild returns a process that is not started, and that finish ends in any case. What
// is set as the environment of its command is all that it has.
func newChild(p *sealed.Copy, lines *lineLog) (*child, error) {
	path, files := p.Command()
	c := &child{lines: lines, mark: procgroup.NewMark(), exited: make(chan struct{})}
	c.cmd = &exec.Cmd{Path: path, Args: []string{plugin.ProcessPrefix + lines.name}, Dir: "/", ExtraFiles: files, SysProcAttr: procgroup.BoundAttr()}
	if err := c.open(); err != nil {
		c.closeAll()
		return nil, err
	}
	return c, nil
}

// open makes the pipes. The child's standard input is the pipe by which it sees its
// parent go.
func (c *child) open() error {
	stdin, stdinW, err := os.Pipe()
	if err != nil {
		return err
	}
	c.stdin, c.theirs = stdinW, []*os.File{stdin}
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return err
	}
	c.stdout, c.theirs = stdout, append(c.theirs, stdoutW)
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		return err
	}
	c.stderr, c.theirs = stderr, append(c.theirs, stderrW)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdoutW, stderrW
	return nil
}

func (c *child) closeAll() {
	for _, f := range append(c.theirs, c.stdin, c.stdout, c.stderr) {
		if f != nil {
			_ = f.Close()
		}
	}
}

// Start implements [runner.Runner].
func (c *child) Start(ctx context.Context) error {
	if err := procgroup.Start(c.cmd, c.begun, c.ended); err != nil {
		c.closeAll()
		return err
	}
	for _, f := range c.theirs {
		_ = f.Close()
	}
	hello, helloW := io.Pipe()
	c.hello = hello
	c.streams.Go(func() { c.readStdout(helloW) })
	c.streams.Go(func() { c.lines.copy("stderr", &tail{file: c.stderr}, pipeRate) })
	c.mu.Lock()
	killed := c.killed
	c.mu.Unlock()
	if killed {
		return c.Kill(ctx)
	}
	return nil
}

// begun notes that the process has started.
func (c *child) begun() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = true
}

// ended notes that the process has ended, before its number can be another's.
func (c *child) ended(wait func() error) {
	c.mu.Lock()
	c.err = wait()
	c.reaped = true
	c.mu.Unlock()
	deadline := time.Now().Add(outputGrace)
	_ = c.stdout.SetReadDeadline(deadline)
	_ = c.stderr.SetReadDeadline(deadline)
	close(c.exited)
}

// finish waits until nothing of the process is left.
func (c *child) finish() {
	c.mu.Lock()
	started := c.started
	c.mu.Unlock()
	if started {
		<-c.exited
		if left := procgroup.EndMarked(c.mark); left > 0 {
			warnOfStrays(c.lines.logger, c.lines.name, left)
		}
		_ = c.hello.Close()
		c.streams.Wait()
	}
	c.closeAll() // in part for the second time
}

// readStdout hands the first line to go-plugin and the rest to the log.
func (c *child) readStdout(hello *io.PipeWriter) {
	in := bufio.NewReaderSize(&tail{file: c.stdout}, maxHello)
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		_ = hello.CloseWithError(fmt.Errorf("the first line has more than %d bytes", maxHello))
	} else {
		_, _ = hello.Write(bytes.Clone(line))
		_ = hello.Close()
	}
	c.lines.copy("stdout", in, pipeRate)
}

// Stdout implements [runner.Runner].
func (c *child) Stdout() io.ReadCloser { return c.hello }

// Stderr implements [runner.Runner]; what the process writes there is read already.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Wait implements [runner.AttachedRunner].
func (c *child) Wait(context.Context) error {
	<-c.exited
	return c.err
}

// Kill implements [runner.AttachedRunner]: it kills the whole group.
func (c *child) Kill(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	if c.started && !c.reaped {
		procgroup.Kill(c.cmd.Process.Pid)
	}
	return nil
}

// ID implements [runner.AttachedRunner]. It is never empty: go-plugin cleans up nothing
// of a process without one.
func (c *child) ID() string {
	if c.cmd.Process == nil {
		return "not started"
	}
	return fmt.Sprint(c.cmd.Process.Pid)
}

// Name implements [runner.Runner].
func (c *child) Name() string { return c.cmd.Path }

// Diagnose implements [runner.Runner].
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost implements [runner.AddrTranslator]. A process says where it listens, and
// does not send its agent to other hosts, nor to ask for their names.
func (c *child) PluginToHost(network, addr string) (string, string, error) {
	at, err := netip.ParseAddrPort(addr)
	switch {
	case network == "unix" && addr != "", network == "tcp" && err == nil && at.Addr().Unmap().IsLoopback():
		return network, addr, nil
	}
	return "", "", fmt.Errorf("the process listens on %s %q: want a unix socket, or tcp and a loopback address", oneLine(network), addr)
}

// HostToPlugin implements [runner.AddrTranslator].
func (c *child) HostToPlugin(network, addr string) (string, string, error) { return network, addr, nil }

// endGrace is how long a process that has closed its connection may take to end, if the
// attempt that came upon it has the time: on a busy machine there is a while between.
const endGrace = 2 * time.Second

// awaitEnd waits for the end of a process that seems to be ending, and for its last lines.
func (c *child) awaitEnd(ctx context.Context) {
	grace := endGrace
	if deadline, ok := ctx.Deadline(); ok {
		grace = min(grace, max(outputGrace, time.Until(deadline)))
	}
	for range 2 { // halves, for one of which the machine may stand still
		timer := time.NewTimer(grace / 2)
		select {
		case <-c.exited:
			timer.Stop()
			c.streams.Wait()
			return
		case <-timer.C:
		}
	}
}

// wasKilled reports whether we have killed the process, rather than it has ended.
func (c *child) wasKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed && c.err != nil && c.err.Error() == "signal: killed"
}

// exitStatus returns how the process has ended, and what it wrote last; "" while it runs. v is
// as for [lineLog.lastWords].
func (c *child) exitStatus(v *validation) string {
	select {
	case <-c.exited:
	default:
		return ""
	}
	text := "exit status 0"
	if c.err != nil {
		text = c.err.Error()
	}
	if last := c.lines.lastWords(v); last != "" {
		text += ": " + last
	}
	return text
}
