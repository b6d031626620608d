package process

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/pods/local/internal/shim"
)

// starting has a token for each shim that is being started. A start takes a few ms of processor
// time: many at once would delay the probes of the agent, and take longer than startTimeout.
var starting = make(chan struct{}, max(4, 2*runtime.GOMAXPROCS(0)))

// startTimeout limits the start of a container. A program that takes longer is not a shim.
const startTimeout = 30 * time.Second

// endTimeout is how long a shim may take to end after its control pipe is closed.
const endTimeout = 5 * time.Second

// outputGrace is how long output is read after a shim has ended.
const outputGrace = 200 * time.Millisecond

// maxPipe is the capacity of the pipe of a container's output.
const maxPipe = 64 << 10

// Process is the agent's handle of a container and its shim. It is safe for concurrent use.
type Process struct {
	pid     int
	control *os.File
	exited  chan struct{}
	ended   Exit // read-only once exited is closed
}

// Start starts l under a shim, which is another instance of this program; see package shim. Start copies the
// container's output to output. The error is [ErrCanceled] if cancel was closed while Start waited for other
// starts.
func Start(l Launch, output *Output, cancel <-chan struct{}) (*Process, error) {
	order := shim.Launch{Args: l.Args, Dir: l.Dir, Env: l.Env, User: (*shim.User)(l.User), Umask: l.Umask, Mark: l.Mark}
	self, err := os.Executable()
	if err == nil && len(l.Args) > 0 {
		order.Path, err = lookPath(l)
	}
	if err != nil {
		return nil, err
	}
	pipes, err := newShimPipes()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: self, Args: []string{self, shim.Argument}, Env: []string{"GOMAXPROCS=1"},
		Stdout: pipes.outputW, Stderr: pipes.outputW,
		ExtraFiles: []*os.File{pipes.controlR, pipes.reportW},
		// A terminal sends its signals to the session of the agent.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	p := &Process{control: pipes.controlW, exited: make(chan struct{})}
	reports := json.NewDecoder(pipes.reportR)
	if err := p.startShim(cmd, order, pipes, reports, cancel); err != nil {
		pipes.closeAll() // ends the shim, with everything that it has started
		if cmd.Process != nil {
			timer := time.AfterFunc(endTimeout, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			timer.Stop()
		}
		return nil, err
	}
	go p.wait(cmd, reports, pipes, output)
	return p, nil
}

// startShim starts the shim, and l under it.
func (p *Process) startShim(cmd *exec.Cmd, l shim.Launch, pipes *shimPipes, reports *json.Decoder, cancel <-chan struct{}) error {
	select {
	case starting <- struct{}{}:
		defer func() { <-starting }()
	case <-cancel:
		return ErrCanceled
	}
	select {
	case <-cancel: // the first select may choose either
		return ErrCanceled
	default:
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the shim: %w", err)
	}
	closeFiles(pipes.controlR, pipes.reportW, pipes.outputW)
	end := time.Now().Add(startTimeout)
	_ = pipes.controlW.SetWriteDeadline(end)
	_ = pipes.reportR.SetReadDeadline(end)
	err := p.launch(l, reports)
	_ = pipes.controlW.SetWriteDeadline(time.Time{})
	_ = pipes.reportR.SetReadDeadline(time.Time{})
	return err
}

// launch sends l to the shim and waits for its answer.
func (p *Process) launch(l shim.Launch, reports *json.Decoder) error {
	line, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := p.control.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write to the shim: %w", err)
	}
	var m shim.Message
	switch err := reports.Decode(&m); {
	case err != nil:
		return fmt.Errorf("the shim did not answer: %w", err)
	case m.Error != "":
		return errors.New(m.Error)
	}
	p.pid = m.PID
	return nil
}

// wait copies the output of the container, waits for its end and closes p.exited.
func (p *Process) wait(cmd *exec.Cmd, reports *json.Decoder, pipes *shimPipes, output *Output) {
	defer close(p.exited)
	var copying sync.WaitGroup
	copying.Go(func() { copyOutput(output, pipes.outputR) })
	var m shim.Message
	err := reports.Decode(&m)
	_ = cmd.Wait()
	if err == nil && m.Exit != nil {
		p.ended = Exit{Status: *m.Exit}
	} else {
		// The shim was killed: kill the rest of the group.
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		p.ended = Exit{Status: Status{Code: 137, Signal: 9}, Message: "the shim of the container was killed"}
	}
	p.ended.At = time.Now()
	_ = pipes.outputR.SetReadDeadline(time.Now().Add(outputGrace))
	copying.Wait()
	output.close()
	pipes.closeAll()
}

// copyOutput copies from a pipe until all writers have closed it, or until the deadline of the pipe.
// After the deadline it copies the bytes that remain in the pipe, so that the last lines of a container are not
// lost when the output is written slowly.
func copyOutput(to io.Writer, pipe *os.File) {
	if _, err := io.Copy(to, pipe); !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	procgroup.Drain(pipe, to, maxPipe) // limited: a process that left the container may write forever
}

// Terminate sends SIGTERM to the process group of the container.
func (p *Process) Terminate() { p.command(shim.Terminate) }

// Kill sends SIGKILL to every process of the container.
func (p *Process) Kill() { p.command(shim.Kill) }

// command sends c to the shim. It does nothing if the shim has ended.
func (p *Process) command(c byte) { _, _ = p.control.Write([]byte{c}) }

// Exited returns a channel that is closed when no process of the container is left.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// HasExited reports whether no process of the container is left.
func (p *Process) HasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Exit returns how the container ended. It must be called after Exited is closed.
func (p *Process) Exit() Exit { return p.ended }

// SignalName returns the name of a signal, such as "SIGKILL", and "" for 0.
func SignalName(number int32) string {
	if number == 0 {
		return ""
	}
	return cmp.Or(unix.SignalName(syscall.Signal(number)), fmt.Sprintf("signal %d", number))
}

// shimPipes are the three pipes between the agent and a shim.
type shimPipes struct {
	controlR, controlW, reportR, reportW, outputR, outputW *os.File
}

func newShimPipes() (*shimPipes, error) {
	p := &shimPipes{}
	for _, ends := range [...][2]**os.File{
		{&p.controlR, &p.controlW}, {&p.reportR, &p.reportW}, {&p.outputR, &p.outputW},
	} {
		var err error
		if *ends[0], *ends[1], err = os.Pipe(); err != nil {
			p.closeAll()
			return nil, err
		}
	}
	return p, nil
}

func (p *shimPipes) closeAll() {
	closeFiles(p.controlR, p.controlW, p.reportR, p.reportW, p.outputR, p.outputW)
}

// closeFiles closes files. Some may be nil or closed.
func closeFiles(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}
