package plugintest

import (
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const garbageBytes = 1024

// conn is the guest's end of a connection to a peer. The peer has no goroutine: its
// script goes on when the guest writes, and what it sends arrives when the clock says.
type conn struct {
	peer *peer
	host *network

	mu      sync.Mutex
	in      [][]byte  // has arrived, and was not read yet
	err     error     // what a Read gives when in is empty
	out     []byte    // was written, and not received yet
	step    int       // of the script
	busy    time.Time // until when the peer is sending
	arrived chan struct{}
	closed  bool
}

var _ net.Conn = (*conn)(nil)

// Ready reports whether a Read returns at once: see handlers/wasm.
func (c *conn) Ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readyLocked()
}

func (c *conn) readyLocked() bool { return len(c.in) > 0 || c.err != nil || c.closed }

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		if c.readyLocked() {
			defer c.mu.Unlock()
			return c.readLocked(p)
		}
		if c.arrived == nil {
			c.arrived = make(chan struct{})
		}
		arrived := c.arrived
		c.mu.Unlock()
		<-arrived
	}
}

func (c *conn) readLocked(p []byte) (int, error) {
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case len(c.in) > 0:
		n := copy(p, c.in[0])
		if c.in[0] = c.in[0][n:]; len(c.in[0]) == 0 || c.peer.network == "udp" {
			c.in = c.in[1:] // of a datagram the rest is lost
		}
		return n, nil
	case c.err == io.EOF:
		return 0, io.EOF
	default:
		return 0, opError("read", c.peer.network, c.peer.addr, c.err)
	}
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	if c.err != nil && c.err != io.EOF {
		defer c.mu.Unlock()
		return 0, opError("write", c.peer.network, c.peer.addr, c.err)
	}
	c.out = append(c.out, p...)
	c.mu.Unlock()
	switch c.peer.Behaviour {
	case Garbage:
		junk := make([]byte, garbageBytes)
		for i := range junk {
			junk[i] = byte(c.host.rng.Uint32())
		}
		c.later(0, junk, nil)
	case "":
		c.run()
	}
	return len(p), nil
}

// run goes on with the script, as far as what was received allows.
func (c *conn) run() {
	for c.step < len(c.peer.Script) {
		s := &c.peer.Script[c.step]
		if s.Recv != nil && !c.receive(s) {
			return
		}
		switch {
		case s.Send != nil:
			c.send(s.Send)
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

// receive reports whether the step has got what it waits for.
func (c *conn) receive(s *Step) bool {
	n, done, err := s.Recv.match(c.out)
	if err != nil {
		c.host.fault("line %d: %s: %v", s.Line, c.peer.Dial, err)
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

// waitsFor returns the step that still waits for something of the guest, or nil.
func (c *conn) waitsFor() *Step {
	if c.peer.Behaviour != "" || c.step >= len(c.peer.Script) {
		return nil
	}
	return &c.peer.Script[c.step]
}

func (c *conn) send(s *Send) {
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
	now := c.host.clock.Now()
	at := c.from().Add(after)
	c.busy = at
	if at = at.Add(c.peer.Latency); at.After(now) {
		c.host.clock.at(at, func() { c.arrive(data, end) })
		return
	}
	c.arrive(data, end)
}

func (c *conn) arrive(data []byte, end error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(data) > 0 {
		c.in = append(c.in, data)
	}
	if c.err == nil {
		c.err = end
	}
	c.wakeLocked()
}

func (c *conn) wakeLocked() {
	if c.arrived != nil {
		close(c.arrived)
		c.arrived = nil
	}
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.wakeLocked()
	return nil
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return address{c.peer.network, "10.99.255.1:40000"} }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return address{c.peer.network, c.peer.addr} }

// SetDeadline implements [net.Conn]. Reads wait by the clock, outside of here, and
// writes do not wait.
func (c *conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
