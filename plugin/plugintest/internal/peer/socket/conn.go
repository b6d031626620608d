package socket

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/expr"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/program"
)

// conn is the plugin's end of a connection to a server. The server has no goroutine: its script
// continues when the plugin writes, and its data arrives at a time of the clock.
type conn struct {
	peer.Buffer
	player *player
	net    *peer.Network
	addr   peer.Addr
	link   *program.Link // with the process that plays the server; set before the connection is used
	closed atomic.Bool   // by the plugin

	mu      sync.Mutex // guards the fields below, the state of the server
	server  *server
	out     []byte                // written by the plugin, not received yet
	step    int                   // index of the current step
	secured bool                  // whether the handshake has been made
	busy    time.Time             // when the server has finished sending
	values  map[string]expr.Value // captured and computed by steps
	size    int                   // of values, and of the data that steps send; in bytes
	slow    int                   // bytes sent at intervals
}

var (
	_ net.Conn     = (*conn)(nil)
	_ peer.TLSConn = (*conn)(nil)
)

func (p *player) newConn(s *server) *conn {
	c := &conn{server: s, player: p, net: p.net, addr: peer.Addr{Net: s.network, Address: s.addr}, values: make(map[string]expr.Value)}
	c.Datagrams, c.Deadlines = s.network == "udp", p.net.RealTime
	return c
}

func (c *conn) opError(op string, err error) error {
	return peer.OpError(op, c.addr.Net, c.addr.Address, err)
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Buffer.Read(p)
	if err != nil && err != io.EOF && err != net.ErrClosed {
		err = c.opError("read", err)
	}
	return n, err
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	if c.net.Over() {
		return 0, c.opError("write", os.ErrDeadlineExceeded)
	}
	if err := c.WriteErr(); err == net.ErrClosed {
		return 0, err
	} else if err != nil {
		return 0, c.opError("write", err)
	}
	if c.link != nil {
		if err := c.link.Write(bytes.Clone(p)); err != nil {
			return 0, c.opError("write", err)
		}
		return len(p), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.step < len(c.server.Script) || len(c.out) < maxReceived {
		c.out = append(c.out, p...)
	}
	switch c.server.Behaviour {
	case peer.Garbage:
		c.sendLocked(c.net.Garbage(), nil)
	case "":
		c.runLocked()
	}
	return len(p), nil
}

// start starts the script, until its first step that waits for the plugin.
func (c *conn) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.server.Behaviour {
	case peer.Reset:
		c.Arrive(nil, syscall.ECONNRESET)
	case "":
		c.runLocked()
	}
}

// runLocked carries out the script, up to the first step that needs more data.
func (c *conn) runLocked() {
	for c.step < len(c.server.Script) {
		if c.net.Over() { // expressions may take long
			c.step = len(c.server.Script)
			return
		}
		s := &c.server.Script[c.step]
		if s.Recv != nil && !c.receiveLocked(s) || s.Handshake && !c.secured {
			return
		}
		var err error
		switch {
		case s.Send != nil:
			err = c.sendSlowlyLocked(s.Send)
		case s.Let != nil:
			err = c.computeLocked(s)
		case s.Close:
			c.sendLocked(nil, io.EOF)
		case s.Reset:
			c.sendLocked(nil, syscall.ECONNRESET)
		case s.Wait > 0:
			c.busy = c.fromLocked().Add(s.Wait)
		}
		if err != nil {
			c.failLocked(s.Line, err)
			return
		}
		c.step++
	}
}

// failLocked adds a failure of the case, and ends the connection.
func (c *conn) failLocked(line int, err error) {
	c.net.Faultf("%s: %s: %v", c.net.Line(line), c.server.Dial, err)
	c.step = len(c.server.Script)
	c.sendLocked(nil, syscall.ECONNRESET)
}

// envLocked returns the values for expressions.
func (c *conn) envLocked() *expr.Env { return &expr.Env{Values: c.values, Now: c.fromLocked()} }

// Limits of the bytes of one connection.
const (
	maxSize = 32 << 20 // of values, and of the data that steps send
	maxSlow = 64 << 10 // sent at intervals
)

// growLocked counts bytes of a value, or of data to send.
func (c *conn) growLocked(n int) error {
	if c.size += n; c.size > maxSize {
		return fmt.Errorf("the values and the data of one connection have more than %d bytes", maxSize)
	}
	return nil
}

// maxWaiting is the limit of the bytes that a step which receives may wait for.
const maxWaiting = 16 << 20

// receiveLocked reports whether the step is complete.
func (c *conn) receiveLocked(s *Step) bool {
	got, done, err := s.Recv.match(c.out, c.envLocked())
	if err != nil && c.step == 0 && c.player.move(c) {
		return c.receiveLocked(&c.server.Script[0])
	}
	if err == nil && !done && len(c.out) > maxWaiting {
		err = fmt.Errorf("got %d bytes, and still waits for %v", len(c.out), s)
	}
	if err != nil {
		c.failLocked(s.Line, err)
		return false
	}
	if !done {
		return false
	}
	c.out = c.out[got.size:]
	for name, data := range got.values {
		c.values[name] = expr.Value{Bytes: data}
		if err := c.growLocked(len(data)); err != nil {
			c.failLocked(s.Line, err)
			return false
		}
	}
	return true
}

// computeLocked gives computed values their names.
func (c *conn) computeLocked(s *Step) error {
	for i := range s.Let {
		v, err := s.Let[i].compute(c.envLocked())
		if err == nil {
			err = c.growLocked(len(v.Bytes))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Let[i].Name, err)
		}
		c.values[s.Let[i].Name] = v
	}
	return nil
}

// sendSlowlyLocked sends byte by byte if the step has an interval.
func (c *conn) sendSlowlyLocked(s *Send) error {
	data, err := s.Data.bytes(c.envLocked())
	if err == nil {
		err = c.growLocked(len(data))
	}
	if err != nil {
		return err
	}
	if s.Every == 0 {
		c.sendLocked(data, nil)
		return nil
	}
	if c.slow += len(data); c.slow > maxSlow {
		return fmt.Errorf("every: one connection sends more than %d bytes byte by byte", maxSlow)
	}
	for i := range data {
		c.busy = c.fromLocked().Add(s.Every)
		c.sendLocked(data[i:i+1], nil)
	}
	return nil
}

// sendLocked makes data, or the end, arrive after all data that was sent before.
func (c *conn) sendLocked(data []byte, end error) {
	c.busy = c.fromLocked()
	c.net.Clock.At(c.busy.Add(c.server.Latency), func() { c.Arrive(data, end) })
}

// fromLocked returns the time of the server's next action.
func (c *conn) fromLocked() time.Time {
	if now := c.net.Clock.Now(); c.busy.Before(now) {
		return now
	}
	return c.busy
}

// waitsFor returns the step that waits for the plugin, and the bytes received for it; nil if there
// is none.
func (c *conn) waitsFor() (*Step, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.Behaviour != "" || c.step >= len(c.server.Script) {
		return nil, ""
	}
	return &c.server.Script[c.step], field.Quote(c.out)
}

// state returns a description of the server's state.
func (c *conn) state() string {
	if s, got := c.waitsFor(); s != nil {
		return fmt.Sprintf("waits for %v (%s); got %s", s, c.net.Line(s.Line), got)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.net.Clock.Now()
	switch {
	case c.server.Behaviour == peer.Timeout:
		return "behaviour timeout: it is never connected"
	case c.server.Program != nil:
		return fmt.Sprintf("is the process %v", c.server.Program)
	case c.server.Behaviour != "":
		return fmt.Sprintf("behaviour %s", c.server.Behaviour)
	case c.busy.Add(c.server.Latency).After(now):
		return fmt.Sprintf("sends on %v later", c.busy.Add(c.server.Latency).Sub(now).Round(time.Millisecond))
	case len(c.out) > 0:
		return "its script has ended, it sends nothing more; then came " + field.Quote(c.out)
	}
	return "its script has ended, it sends nothing more"
}

// Server implements [peer.TLSConn].
func (c *conn) Server() peer.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return peer.Server{URL: c.server.Dial, Behaviour: c.server.Behaviour, TLS: c.server.TLS}
}

// HandshakeDone implements [peer.TLSConn].
func (c *conn) HandshakeDone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secured = true
	if c.server.Behaviour == "" {
		c.runLocked()
	}
}

// The first bytes of a TLS record with a handshake message.
const (
	recordHandshake = 0x16
	recordMajor     = 3
)

// StartsTLS implements [peer.TLSConn].
func (c *conn) StartsTLS(data []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.secured || c.server.Behaviour != "" || c.server.Program != nil && c.server.TLS == nil {
		return false // a process may have its own TLS
	}
	if len(data) == 0 {
		return isTLS(c.server.Dial)
	}
	if len(data) < 2 || data[0] != recordHandshake || data[1] != recordMajor {
		return false
	}
	if c.server.TLS != nil || c.step >= len(c.server.Script) || c.server.Script[c.step].Recv == nil {
		return true
	}
	_, _, err := c.server.Script[c.step].Recv.match(data, c.envLocked())
	return err != nil
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return peer.Addr{Net: c.addr.Net, Address: peer.LocalAddr} }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return c.addr }
