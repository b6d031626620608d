package plugintest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const garbageBytes = 1024

// conn is the guest's end of a connection to a peer. The peer has no goroutine: its
// script goes on when the guest writes, and what it sends arrives when the clock says.
type conn struct {
	inbox
	host *network
	addr address

	script  sync.Mutex // guards what is below, which is the peer's
	peer    *peer
	out     []byte    // was written, and not received yet
	step    int       // of the script
	secured bool      // a handshake was made
	busy    time.Time // until when the peer is sending
}

var _ net.Conn = (*conn)(nil)

func (n *network) newConn(p *peer) *conn {
	c := &conn{peer: p, host: n, addr: address{p.network, p.addr}}
	c.datagrams, c.deadlines = p.network == "udp", n.native
	return c
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.inbox.Read(p)
	if err != nil && err != io.EOF && err != net.ErrClosed {
		err = opError("read", c.addr.network, c.addr.addr, err)
	}
	return n, err
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	if c.host.over() {
		return 0, opError("write", c.addr.network, c.addr.addr, os.ErrDeadlineExceeded)
	}
	if err := c.failed(); err == net.ErrClosed {
		return 0, err
	} else if err != nil {
		return 0, opError("write", c.addr.network, c.addr.addr, err)
	}
	c.script.Lock()
	defer c.script.Unlock()
	c.out = append(c.out, p...)
	switch c.peer.Behaviour {
	case Garbage:
		c.later(0, c.host.junk(), nil)
	case "":
		c.runLocked()
	}
	return len(p), nil
}

// start begins what the peer does by itself.
func (c *conn) start() {
	c.script.Lock()
	defer c.script.Unlock()
	switch c.peer.Behaviour {
	case ResetNow:
		c.arrive(nil, syscall.ECONNRESET)
	case "":
		c.runLocked()
	}
}

// runLocked goes on with the script, as far as what was received allows.
func (c *conn) runLocked() {
	for c.step < len(c.peer.Script) {
		s := &c.peer.Script[c.step]
		if s.Recv != nil && !c.receiveLocked(s) || s.Handshake && !c.secured {
			return
		}
		switch {
		case s.Send != nil:
			c.sendLocked(s.Send)
		case s.Close:
			c.later(0, nil, io.EOF)
		case s.Reset:
			c.later(0, nil, syscall.ECONNRESET)
		case s.Wait > 0:
			c.busy = c.from().Add(s.Wait)
		}
		c.step++
	}
}

// receiveLocked reports whether the step has got what it waits for.
func (c *conn) receiveLocked(s *Step) bool {
	n, done, err := s.Recv.match(c.out)
	if err != nil && c.step == 0 && c.host.another(c) {
		return c.receiveLocked(&c.peer.Script[0])
	}
	if err != nil {
		c.host.fault("%s: %s: %v", c.host.line(s.Line), c.peer.Dial, err)
		c.step = len(c.peer.Script)
		c.later(0, nil, syscall.ECONNRESET)
		return false
	}
	if !done {
		return false
	}
	c.out = c.out[n:]
	return true
}

// waitsFor returns the step that still waits for something of the guest, or nil, and
// what has come of it.
func (c *conn) waitsFor() (*Step, string) {
	c.script.Lock()
	defer c.script.Unlock()
	if c.peer.Behaviour != "" || c.step >= len(c.peer.Script) {
		return nil, ""
	}
	return &c.peer.Script[c.step], quote(c.out)
}

// served is the peer that the connection has come to.
func (c *conn) served() *Peer {
	c.script.Lock()
	defer c.script.Unlock()
	return c.peer.Peer
}

// secure notes that a handshake was made.
func (c *conn) secure() {
	c.script.Lock()
	defer c.script.Unlock()
	c.secured = true
	if c.peer.Behaviour == "" {
		c.runLocked()
	}
}

func (c *conn) sendLocked(s *Send) {
	if s.Every == 0 {
		c.later(0, s.Data, nil)
		return
	}
	for i := range s.Data {
		c.later(s.Every, s.Data[i:i+1], nil)
	}
}

// from is when what the peer does next begins.
func (c *conn) from() time.Time {
	if now := c.host.clock.Now(); c.busy.Before(now) {
		return now
	}
	return c.busy
}

// later lets data, or the end, arrive after all that was sent before.
func (c *conn) later(after time.Duration, data []byte, end error) {
	c.busy = c.from().Add(after)
	c.host.clock.at(c.busy.Add(c.peer.Latency), func() { c.arrive(data, end) })
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return address{c.addr.network, "10.99.255.1:40000"} }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return c.addr }
