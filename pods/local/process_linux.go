package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// startTimeout is how long a shim may take to start its container. One that takes
// longer is a program that is none.
const startTimeout = 30 * time.Second

// endTimeout is how long a shim may take to end when it is told to.
const endTimeout = 5 * time.Second

// outputGrace is how long output is still read after a shim has ended.
const outputGrace = 200 * time.Millisecond

// maxPipe is how many bytes the pipe of a container's output holds at most.
const maxPipe = 64 << 10

// process is a container's process group and its shim, as the agent sees them.
type process struct {
	pid     int
	control *os.File
	exited  chan struct{}
	ended   exit // read-only once exited is closed

	mu     sync.Mutex
	closed bool // of control
}

// startProcess starts l under a shim. What the container writes goes to output. The
// error says why the container did not start.
func startProcess(shim string, l launch, output *lineWriter) (*process, error) {
	pipes, err := newShimPipes()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: shim, Args: []string{shim, shimArgument}, Env: []string{"GOMAXPROCS=1"},
		Stdout: pipes.outputW, Stderr: pipes.outputW,
		ExtraFiles: []*os.File{pipes.controlR, pipes.reportW},
		// Out of reach of what a terminal sends to the agent's group.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		pipes.closeAll()
		return nil, fmt.Errorf("start the shim: %w", err)
	}
	pipes.closeChild()
	p := &process{control: pipes.controlW, exited: make(chan struct{})}
	reports := json.NewDecoder(pipes.reportR)
	_ = pipes.reportR.SetReadDeadline(time.Now().Add(startTimeout))
	err = p.launch(l, reports)
	_ = pipes.reportR.SetReadDeadline(time.Time{})
	if err != nil {
		p.release() // on which a shim ends, with all that it has started
		timer := time.AfterFunc(endTimeout, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		pipes.closeAll()
		return nil, err
	}
	go p.wait(cmd, reports, pipes, output)
	return p, nil
}

// launch tells the shim what to run and waits for its answer.
func (p *process) launch(l launch, reports *json.Decoder) error {
	line, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := p.control.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("speak to the shim: %w", err)
	}
	var m shimMessage
	switch err := reports.Decode(&m); {
	case err != nil:
		return fmt.Errorf("the shim did not answer: %w", err)
	case m.Error != "":
		return errors.New(m.Error)
	}
	p.pid = m.PID
	return nil
}

// wait copies the container's output, waits for its end and then says so.
func (p *process) wait(cmd *exec.Cmd, reports *json.Decoder, pipes *shimPipes, output *lineWriter) {
	defer close(p.exited)
	var copying sync.WaitGroup
	copying.Go(func() { copyOutput(output, pipes.outputR) })
	var m shimMessage
	err := reports.Decode(&m)
	_ = cmd.Wait()
	if err == nil && m.Exit != nil {
		p.ended = exit{shimExit: *m.Exit}
	} else {
		// Someone has killed the shim. What is left of the group goes with it.
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		p.ended = exit{shimExit: shimExit{Code: 137, Signal: 9}, message: "the shim of the container was killed"}
	}
	p.ended.at = time.Now()
	_ = pipes.outputR.SetReadDeadline(time.Now().Add(outputGrace))
	copying.Wait()
	output.close()
	p.release()
	pipes.closeAll()
}

// copyOutput copies what is written to a pipe until nobody can write any more, or until
// the pipe's deadline, and then what is in it already: whoever takes the output may have
// been too slow for the last words of a container.
func copyOutput(to io.Writer, pipe *os.File) {
	if _, err := io.Copy(to, pipe); !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	_ = pipe.SetReadDeadline(time.Time{})
	raw, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	part := make([]byte, 4<<10)
	for left := maxPipe; left > 0; { // whoever has got away may write for ever
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			n, _ = syscall.Read(int(fd), part) // the pipe does not block
			return true
		})
		if err != nil || n <= 0 {
			return
		}
		_, _ = to.Write(part[:n])
		left -= n
	}
}

// terminate sends SIGTERM to the container's process group.
func (p *process) terminate() { p.command(shimTerminate) }

// kill kills everything that runs in the container.
func (p *process) kill() { p.command(shimKill) }

func (p *process) command(c byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		_, _ = p.control.Write([]byte{c}) // it fails when the shim has ended: fine
	}
}

func (p *process) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.control.Close()
}

func (p *process) exit() exit { return p.ended }

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

func (p *shimPipes) closeChild() { closeFiles(p.controlR, p.reportW, p.outputW) }

func (p *shimPipes) closeAll() {
	closeFiles(p.controlR, p.controlW, p.reportR, p.reportW, p.outputR, p.outputW)
}

// closeFiles closes what is not nil; a file that is closed already stays so.
func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
