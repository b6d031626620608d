package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/program"
)

// programs are the processes of one attempt.
type programs struct {
	group *program.Group

	mu        sync.Mutex
	listening map[*server]*program.Process
}

func newPrograms() *programs {
	return &programs{group: program.NewGroup(), listening: make(map[*server]*program.Process)}
}

// open connects to the process that plays the server of c.
func (p *programs) open(ctx context.Context, c *conn) (*program.Link, error) {
	s := c.server
	network := s.network
	if network == "unix" {
		network = "tcp"
	}
	report := func(err error) {
		if !c.player.finished(c) {
			c.net.Faultf("%s: %s: %v", c.net.Line(s.Line), s.Dial, err)
		}
	}
	if !s.Program.Listens {
		process, err := p.group.Start(s.Program, network, report)
		if err != nil {
			return nil, err
		}
		return process.Pipe(c.receive), nil
	}
	process, err := p.listener(s, network, report)
	if err != nil {
		return nil, err
	}
	return process.Dial(ctx, network, c.receive)
}

// finished reports whether the plugin needs the process of c no more: the attempt is over, or the plugin has
// closed c and every other connection with the process.
func (p *player) finished(c *conn) bool {
	switch {
	case c.net.Over():
		return true
	case !c.server.Program.Listens:
		return c.closed.Load()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(c.server.conns, func(o *conn) bool { return !o.closed.Load() })
}

// listener returns the one process of a server that listens.
func (p *programs) listener(s *server, network string, report func(error)) (process *program.Process, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if process = p.listening[s]; process == nil {
		if process, err = p.group.Start(s.Program, network, report); err == nil {
			p.listening[s] = process
		}
	}
	return process, err
}

// launch connects to the process. An error is a failure of the case, and refuses the connection.
func (c *conn) launch(ctx context.Context) error {
	err := errors.New("this run starts no commands")
	if c.net.Commands {
		c.net.Clock.Follow(1) // until receive gets the end
		c.link, err = c.player.programs.open(ctx, c)
		if err != nil {
			c.net.Clock.Follow(-1)
		}
	}
	if err == nil {
		return nil
	}
	c.net.Faultf("%s: %s: %v", c.net.Line(c.server.Line), c.server.Dial, err)
	return peer.Refused(c.addr.Net, c.addr.Address)
}

// receive makes data of the process, or its end, arrive.
func (c *conn) receive(data []byte, end error) {
	if end != nil {
		defer c.net.Clock.Follow(-1)
	}
	if end != nil && end != io.EOF {
		if end != net.ErrClosed {
			c.net.Faultf("%s: %s: %v", c.net.Line(c.server.Line), c.server.Dial, end)
		}
		end = syscall.ECONNRESET
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendLocked(data, end)
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.closed.Store(true)
	if c.link != nil {
		c.link.Close()
	}
	return c.Buffer.Close()
}

// Close ends the processes of the attempt.
func (p *player) Close() error {
	p.programs.group.Close()
	return nil
}
