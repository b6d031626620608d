package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/daeace23/prober/handlers/process/internal/sealed"
	"github.com/daeace23/prober/internal/marked"
	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/plugin"
)

// child is one process. It leads a process group, which is killed as a whole. Processes that have left
// the group are found by a mark in their environment. go-plugin gets the first line of standard output.
// All other output goes to the log.
type child struct {
	cmd    *exec.Cmd
	mark   string // marks its environment
	lines  *lineLog
	hello  *io.PipeReader
	said   atomic.Pointer[string] // the first line, once it is complete
	taken  chan struct{}          // closed by Stdout
	stdin  io.WriteCloser
	ctx    context.Context // the process is killed when it ends
	kill   context.CancelFunc
	exited chan struct{}

	// Read-only once exited is closed.
	killed bool
	err    error
}

var _ runner.Runner = (*child)(nil)

// newChild returns a process that has not been started. The caller sets the environment of its command,
// and always calls finish.
func newChild(p *sealed.Copy, lines *lineLog) *child {
	path, files := p.Command()
	c := &child{lines: lines, mark: procgroup.NewMark(), taken: make(chan struct{}), exited: make(chan struct{})}
	c.ctx, c.kill = context.WithCancel(context.Background())
	c.cmd = &exec.Cmd{
		Path: path, Args: []string{plugin.ProcessPrefix + lines.name}, Dir: "/", ExtraFiles: files,
		WaitDelay: procgroup.OutputGrace, SysProcAttr: procgroup.BoundAttr(),
	}
	return c
}

// Start implements [runner.Runner]. Standard input of the process is a pipe to which nothing is written.
// Its end tells the process that its parent has ended.
func (c *child) Start(context.Context) (err error) {
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	hello, helloW := io.Pipe()
	stdout := &helloWriter{hello: helloW, said: &c.said, rest: c.lines.writer("stdout")}
	stderr := c.lines.writer("stderr")
	c.hello, c.cmd.Stdout, c.cmd.Stderr = hello, stdout, stderr
	started := make(chan struct{})
	go func() {
		defer close(c.exited)
		c.killed, c.err = procgroup.Run(c.ctx, c.cmd, func() { close(started) })
		if errors.Is(c.err, exec.ErrWaitDelay) { // it exited with 0, but a process outside of the group holds its output open
			c.err = nil
		}
		stdout.close()
		stderr.flush()
	}()
	select {
	case <-started:
	case <-c.exited:
	}
	if c.cmd.Process == nil {
		return c.err
	}
	return nil
}

// finish kills the process and all processes that it has started, and waits until they have ended.
func (c *child) finish() {
	c.kill()
	if c.cmd.Process == nil {
		return
	}
	<-c.exited
	if left := marked.End(c.mark); left > 0 {
		warnOfStrays(c.lines.logger, c.lines.name, left)
	}
	_ = c.hello.Close()
}

// firstLine returns the first line of standard output. known is false before the process has printed it.
func (c *child) firstLine() (line string, known bool) {
	if said := c.said.Load(); said != nil {
		return *said, true
	}
	return "", false
}

// maxHello is the maximum length in bytes of the first line, which has the address of the process.
const maxHello = 16 << 10

// helloWriter gives the first line to go-plugin and the rest to the log.
type helloWriter struct {
	hello *io.PipeWriter
	said  *atomic.Pointer[string]
	line  []byte // the first line so far
	done  bool   // the first line is complete
	rest  *lineWriter
}

// Write implements [io.Writer].
func (w *helloWriter) Write(p []byte) (int, error) {
	rest := p
	if !w.done {
		var head []byte
		head, rest, w.done = bytes.Cut(p, []byte("\n"))
		w.line = append(w.line, head...)
		switch {
		case len(w.line) > maxHello:
			w.done = true
			w.keep()
			_ = w.hello.CloseWithError(fmt.Errorf("the first line has more than %d bytes", maxHello))
		case w.done:
			w.sayHello()
		}
	}
	_, _ = w.rest.Write(rest)
	return len(p), nil
}

// keep stores the beginning of the first line.
func (w *helloWriter) keep() {
	line := string(w.line[:min(len(w.line), 2*maxShownLine)])
	w.said.Store(&line)
}

func (w *helloWriter) sayHello() {
	w.keep()
	if len(w.line) > 0 { // an empty write would block until a read
		_, _ = w.hello.Write(w.line)
	}
	_ = w.hello.Close()
}

// close is called at the end of the output.
func (w *helloWriter) close() {
	if !w.done {
		w.sayHello()
	}
	w.rest.flush()
}

// Stdout implements [runner.Runner]. go-plugin calls it once.
func (c *child) Stdout() io.ReadCloser {
	close(c.taken)
	return c.hello
}

// Stderr implements [runner.Runner]. It is empty, because standard error goes to the log. Its end waits for
// Stdout: go-plugin v1.7.0 counts its readers with a WaitGroup and waits for them in another goroutine, so
// it panics if the first reader ends at the moment at which it counts the second.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(endAfter(c.taken)) }

// endAfter is a reader without bytes that ends when the channel is closed.
type endAfter <-chan struct{}

// Read implements [io.Reader].
func (e endAfter) Read([]byte) (int, error) {
	<-e
	return 0, io.EOF
}

// Wait implements [runner.AttachedRunner].
func (c *child) Wait(context.Context) error {
	<-c.exited
	return c.err
}

// Kill implements [runner.AttachedRunner]. It kills the whole group.
func (c *child) Kill(context.Context) error {
	c.kill()
	return nil
}

// ID implements [runner.AttachedRunner]. It is never empty, because go-plugin does not clean up after a
// process without an ID.
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

// PluginToHost implements [runner.AddrTranslator]. It refuses addresses of other hosts. It also refuses
// host names, because they need a look-up.
func (c *child) PluginToHost(network, addr string) (string, string, error) {
	at, err := netip.ParseAddrPort(addr)
	switch {
	case network == "unix" && addr != "", network == "tcp" && err == nil && at.Addr().Unmap().IsLoopback():
		return network, addr, nil
	}
	return "", "", fmt.Errorf("the process listens on %s %q: want a unix socket, or tcp and a loopback address", firstLine(network), addr)
}

// HostToPlugin implements [runner.AddrTranslator].
func (c *child) HostToPlugin(network, addr string) (string, string, error) { return network, addr, nil }

// ready reports whether the process runs.
func (c *child) ready() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// endGrace is how long an attempt waits for the end of a process that has closed its connection.
const endGrace = 2 * time.Second

// awaitEnd waits for a process that seems to be ending. It waits until the deadline of ctx, at most
// endGrace, but always for a moment.
func (c *child) awaitEnd(ctx context.Context) {
	grace := endGrace
	if deadline, ok := ctx.Deadline(); ok {
		grace = min(grace, max(procgroup.OutputGrace, time.Until(deadline)))
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
	}
}

// wasKilled reports whether the process has ended because this program killed it.
func (c *child) wasKilled() bool {
	return !c.ready() && c.killed && c.err != nil && c.err.Error() == "signal: killed"
}

// exitStatus describes how the process has ended, with its last output. It returns "" while the process
// runs. validates is as in [lineLog.lastWords].
func (c *child) exitStatus(validates bool) string {
	if c.ready() {
		return ""
	}
	text := "exit status 0"
	if c.err != nil {
		text = c.err.Error()
	}
	if last := c.lines.lastWords(validates); last != "" {
		text += ": " + last
	}
	return text
}
