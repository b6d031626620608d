// Package program runs the commands that play peers of a case. Only tests start them: see
// [plugintest.Config.Commands]. Read this file first; link.go has the connections.
//
// [plugintest.Config.Commands]: https://pkg.go.dev/github.com/daeace23/prober/plugin/plugintest#Config
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/daeace23/prober/internal/procgroup"
)

// Limits of the commands of one attempt.
const (
	maxProcesses = 16
	maxOutput    = 1 << 20 // bytes that a peer sends over one connection
	maxErrors    = 4 << 10 // bytes of standard error that a failure shows
)

// PortVariable is the environment variable with the port at which a command listens.
const PortVariable = "PROBER_PEER_PORT"

// Command is a command that plays a peer.
type Command struct {
	Args    []string // the program and its arguments
	Dir     string   // the working directory, which relative programs begin at
	Listens bool     // it listens at a port; otherwise its standard input and output are the connection
}

// String returns the command for an error.
func (c *Command) String() string { return strings.Join(c.Args, " ") }

// Group has the processes of one attempt. It is safe for concurrent use.
type Group struct {
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu      sync.Mutex
	started int
	closed  bool
}

// NewGroup returns a group without processes.
func NewGroup() *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Close kills the processes with all processes of their groups, and waits for them.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	g.tasks.Wait()
}

// Process is a running command.
type Process struct {
	Ended chan struct{} // closed when it has ended

	command *Command
	group   *Group
	stdin   *os.File // of a command that does not listen
	stdout  *os.File
	port    string        // at which it listens
	ready   chan struct{} // closed when it has printed a line
}

// Start starts a command. A command that listens does so for network, "tcp" or "udp". report gets the reason
// if the command ends by itself with another status than 0.
func (g *Group) Start(c *Command, network string, report func(error)) (*Process, error) {
	if err := g.count(); err != nil {
		return nil, err
	}
	p := &Process{command: c, group: g, Ended: make(chan struct{}), ready: make(chan struct{})}
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = c.Dir, os.Environ()
	cmd.SysProcAttr, cmd.WaitDelay = procgroup.BoundAttr(), procgroup.OutputGrace
	errs := &procgroup.Head{Limit: maxErrors}
	cmd.Stderr = errs
	childs, err := p.attach(cmd, network)
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	g.tasks.Go(func() {
		defer close(p.Ended)
		killed, err := procgroup.Run(g.ctx, cmd, func() { started <- nil })
		if cmd.ProcessState == nil {
			started <- err
			return
		}
		if status := procgroup.ExitStatus(cmd.ProcessState); status != 0 && !killed {
			report(fmt.Errorf("%v ended with status %d: %s", c, status, shown(errs.Bytes)))
		}
	})
	err = <-started
	for _, f := range childs {
		_ = f.Close()
	}
	if err != nil {
		p.closePipes()
		return nil, err
	}
	return p, nil
}

// count counts a process.
func (g *Group) count() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return errors.New("the attempt has ended")
	case g.started == maxProcesses:
		return fmt.Errorf("more than %d processes in one attempt", maxProcesses)
	}
	g.started++
	return nil
}

// shown returns the last lines of standard error on one line.
func shown(b []byte) string {
	if len(bytes.TrimSpace(b)) == 0 {
		return "it wrote nothing to its standard error"
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

// attach connects the standard input and output of cmd. It returns the files to close once cmd has started.
func (p *Process) attach(cmd *exec.Cmd, network string) (childs []*os.File, err error) {
	if p.command.Listens {
		if p.port, err = freePort(network); err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, PortVariable+"="+p.port)
		cmd.Stdout = &firstLine{ready: p.ready}
		return nil, nil
	}
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), stdin.Close())
	}
	cmd.Stdin, cmd.Stdout = in, out
	p.stdin, p.stdout = stdin, stdout
	return []*os.File{in, out}, nil
}

func (p *Process) closePipes() {
	if p.stdin != nil {
		_ = p.stdin.Close()
		_ = p.stdout.Close()
	}
}

// firstLine is the standard output of a command that listens. It closes ready at the first line, and drops
// the output.
type firstLine struct {
	ready chan struct{}
	once  sync.Once
	pace  procgroup.Pace
}

// Write implements [io.Writer].
func (f *firstLine) Write(b []byte) (int, error) {
	if bytes.IndexByte(b, '\n') >= 0 {
		f.once.Do(func() { close(f.ready) })
	}
	f.pace.Drop(len(b))
	return len(b), nil
}
