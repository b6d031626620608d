package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/daeace23/prober/handlers/internal/rawconn"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
)

// Dial is the default of Config.DialContext. It dials in the network namespace of ctx.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if source := egress.SourceAddress(ctx); source.IsValid() && network != "unix" {
		return dialFrom(ctx, source, network, address)
	}
	if n := netns.From(ctx); n != nil && network != "unix" {
		return rawconn.Origin{Namespace: n}.Dial(ctx, network, address)
	}
	at, err := netip.ParseAddrPort(address)
	if network != "tcp" || err != nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	conn, known, err := rawconn.Dial(ctx, at)
	switch {
	case !known:
		return new(net.Dialer).DialContext(ctx, network, address)
	case err != nil:
		return nil, err
	case !conn.Release(): // ctx has ended
		_ = conn.Close()
		return new(net.Dialer).DialContext(ctx, network, address) // returns the error of a dial with an ended context
	}
	_ = conn.SetNoDelay(true)
	return conn, nil
}

// dialFrom connects from an address of this host.
func dialFrom(ctx context.Context, source netip.Addr, network, address string) (net.Conn, error) {
	from := net.Addr(net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0)))
	if network == "udp" {
		from = net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	dial := (&net.Dialer{LocalAddr: from}).DialContext
	if n := netns.From(ctx); n != nil {
		dial = rawconn.Origin{Namespace: n, Source: source}.Dial
	}
	conn, err := dial(ctx, network, address)
	if errors.Is(err, syscall.EADDRNOTAVAIL) { // not a lack of free ports, as probe.HostReason would assume
		return nil, fmt.Errorf("dial %s %s: %s is not an address of this host", network, address, source)
	}
	return conn, err
}

// network has the connections of one call. Only the call's goroutine may use it, except wake, which
// the pumps of the connections signal.
type network struct {
	conns   []*conn // by handle; nil if closed
	open    int
	dials   []time.Time
	read    int
	written int
	wake    chan struct{} // signalled when a connection has something to read
	pumps   sync.WaitGroup
}

// countDial counts a dial. It returns an error if the dial exceeds a limit of the call.
func (c *Call) countDial() error {
	n, now := &c.net, c.host.Clock.Now()
	n.dials = slices.DeleteFunc(n.dials, func(t time.Time) bool { return now.Sub(t) >= time.Second })
	if n.open >= c.plugin.Limits.Handles {
		return &limit{plugin.LimitHandles, abi.EMFILE, fmt.Sprintf("more than %d open handles", n.open)}
	}
	if len(n.dials) >= c.plugin.Limits.Dials {
		return &limit{plugin.LimitDials, abi.EDQUOT, fmt.Sprintf("more than %d dials a second", len(n.dials))}
	}
	n.dials = append(n.dials, now)
	return nil
}

// add returns a handle for c. It closes the connection when ctx ends, because that is the only way to
// end a Read of any kind of connection.
func (n *network) add(ctx context.Context, c *conn) int32 {
	if n.wake == nil {
		n.wake = make(chan struct{}, 1)
	}
	c.ctx = ctx
	if c.raw == nil { // else it was dialled with TLS
		c.raw = c.Conn
	}
	raw := c.raw
	c.stop = context.AfterFunc(ctx, func() { _ = raw.Close() })
	n.open++
	for i := range n.conns {
		if n.conns[i] == nil {
			n.conns[i] = c
			return int32(i) + 1
		}
	}
	n.conns = append(n.conns, c)
	return int32(len(n.conns))
}

func (n *network) get(handle int32) *conn {
	if handle < 1 || int(handle) > len(n.conns) {
		return nil
	}
	return n.conns[handle-1]
}

func (n *network) close(handle int32) {
	n.conns[handle-1].close()
	n.conns[handle-1] = nil
	n.open--
}

// closeAll closes the open connections and waits for their goroutines.
func (n *network) closeAll() {
	for i, c := range n.conns {
		if c != nil {
			_ = c.raw.Close() // without the close_notify of TLS, which may block
			n.close(int32(i) + 1)
		}
	}
	n.pumps.Wait()
}

// Buffer sizes of pumps, in bytes.
const (
	firstBuffer = 2 << 10
	pumpBuffer  = 16 << 10 // maximum, except for UDP
	datagram    = 64 << 10 // for UDP
)

// conn is a connection of a guest. A goroutine, the pump, reads ahead of the guest, because that is
// the only way to read from any net.Conn without blocking.
type conn struct {
	net.Conn
	raw          net.Conn // the connection below TLS
	network      string   // "tcp", "udp", "tls" or "unix"
	host         string   // as the guest named it
	dns, connect time.Duration
	handshake    time.Duration   // how long the TLS handshake took
	serverName   string          // of the TLS handshake
	secured      time.Time       // when the TLS handshake ended
	strays       *strays         // of a UDP connection after an attempt without an answer; otherwise nil
	ctx          context.Context // the call's
	stop         func() bool     // stops watching ctx
	drained      chan struct{}   // tells the pump that the guest has read everything; nil before the pump starts
	pumped       chan struct{}   // closed when the pump has ended

	sent, received atomic.Int64

	ahead   []byte // buffer of reads without a pump
	limited bool   // a read without a pump has set a deadline

	mu   sync.Mutex
	data []byte
	err  error
}

// ready reports whether there is something to read, and starts the pump if necessary.
func (c *conn) ready(n *network) bool {
	if r, ok := readinessOf(c.Conn); ok {
		return r.Ready()
	}
	if c.drained == nil && c.err == nil && len(c.data) == 0 {
		_ = c.setReadDeadline(time.Time{})
		c.drained, c.pumped = make(chan struct{}, 1), make(chan struct{})
		reads, drained, pumped := c.Conn, c.drained, c.pumped
		n.pumps.Go(func() {
			defer close(pumped)
			c.pump(reads, drained, n.wake)
		})
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.data) > 0 || c.err != nil
}

// readinessOf returns the readiness of c, if it implements it.
func readinessOf(c net.Conn) (r readiness, ok bool) {
	if a, isAnswer := c.(*answer); isAnswer {
		r, ok = a.Reader.(readiness)
		return r, ok
	}
	r, ok = c.(readiness)
	return r, ok
}

// readsAlone reports whether a read that waits may use the connection directly, without a pump. The
// connection must be a stream of the system, whose reads can be interrupted, and no pump may have
// started.
func (c *conn) readsAlone(clock Clock) bool {
	if _, real := clock.(SystemClock); !real || c.drained != nil || c.err != nil || len(c.data) > 0 {
		return false
	}
	switch c.Conn.(type) {
	case *rawconn.Conn, *net.TCPConn, *net.UnixConn:
		return true
	default:
		return false
	}
}

// readAtOnce reads into p without waiting. done is false if there was nothing to read yet.
func (c *conn) readAtOnce(p []byte) (n int, done bool, err error) {
	own, ok := c.Conn.(*rawconn.Conn)
	if !ok {
		return 0, false, nil
	}
	into := c.readBuffer(p)
	if n, err = own.TryRead(into); err == syscall.EAGAIN {
		return 0, false, nil
	}
	n, err = c.finishRead(p, into, n, err)
	return n, true, err
}

// readWithin reads into p, and waits until the guest's timeout or the end of the call. After the
// timeout it returns 0 and no error.
func (c *conn) readWithin(p []byte, timeoutMs int32) (n int, err error) {
	var until time.Time
	if timeoutMs > 0 {
		until = time.Now().Add(time.Duration(timeoutMs) * time.Millisecond)
	}
	if err := c.setReadDeadline(until); err != nil {
		return 0, err
	}
	into := c.readBuffer(p)
	n, err = c.Read(into)
	return c.finishRead(p, into, n, err)
}

// setReadDeadline sets the deadline of reads without a pump. The zero time means none.
func (c *conn) setReadDeadline(until time.Time) error {
	if until.IsZero() && !c.limited {
		return nil
	}
	c.limited = !until.IsZero()
	return c.SetReadDeadline(until)
}

// readBuffer returns the buffer for a read into p: p itself, or a larger one if p is small, in order
// to read ahead as the pump does.
func (c *conn) readBuffer(p []byte) []byte {
	if len(p) >= firstBuffer {
		return p
	}
	if c.ahead == nil {
		c.ahead = make([]byte, firstBuffer)
	}
	return c.ahead
}

// finishRead returns the result of a read into p, after n bytes were read into the buffer into.
func (c *conn) finishRead(p, into []byte, n int, err error) (int, error) {
	c.received.Add(int64(n))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	c.err = err // later reads return it again
	if len(p) < firstBuffer {
		c.data = into[:n]
		return c.readBuffered(p)
	}
	return n, err
}

// pump reads until the connection ends.
func (c *conn) pump(reads net.Conn, drained <-chan struct{}, wake chan<- struct{}) {
	size := firstBuffer
	if c.network == "udp" {
		size = datagram
	}
	buf := make([]byte, size)
	for {
		n, err := reads.Read(buf)
		if n == 0 && err == nil {
			continue
		}
		c.received.Add(int64(n))
		c.mu.Lock()
		c.data, c.err = buf[:n], err
		c.mu.Unlock()
		select {
		case wake <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
		if _, ok := <-drained; !ok {
			return
		}
		if n == len(buf) && n < pumpBuffer {
			buf = make([]byte, 2*n)
		}
	}
}

// readBuffered copies bytes that the pump has read into p. It does not wait.
func (c *conn) readBuffered(p []byte) (n int, err error) {
	if r, ok := readinessOf(c.Conn); ok {
		if len(p) == 0 || !r.Ready() {
			return 0, nil
		}
		n, err = c.Read(p)
		c.received.Add(int64(n))
		return n, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.data) == 0 {
		return 0, c.err
	}
	if n = copy(p, c.data); c.network == "udp" && n > 0 {
		c.data = nil // the rest of a datagram is dropped, as by the system
	} else {
		c.data = c.data[n:]
	}
	if len(c.data) == 0 && c.err == nil && n > 0 && c.drained != nil {
		c.drained <- struct{}{}
	}
	return n, nil
}

// writeAtOnce writes p without waiting. done is false if p was not written completely.
func (c *conn) writeAtOnce(p []byte) (n int, done bool, err error) {
	own, ok := c.Conn.(*rawconn.Conn)
	if !ok {
		return 0, false, nil
	}
	n, err = own.TryWrite(p)
	if err == syscall.EAGAIN {
		err = nil
	}
	return n, n == len(p) || err != nil, err
}

// write writes p, until the guest's timeout or the end of the call.
func (c *conn) write(clock Clock, p []byte, timeoutMs int32) (int, error) {
	deadline, _ := c.ctx.Deadline()
	// An interrupted TLS write cannot be continued, so the timeout does not apply to it.
	if timeoutMs >= 0 && c.network != "tls" {
		// With a deadline in the past, net.Conn would not try to write.
		until := clock.Now().Add(max(time.Millisecond, time.Duration(timeoutMs)*time.Millisecond))
		if deadline.IsZero() || until.Before(deadline) {
			deadline = until
		}
	}
	if err := c.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	return c.Write(p)
}

func (c *conn) info() []byte {
	return abi.Append(nil, &abi.ConnInfo{
		Network: c.network,
		Local:   c.local(),
		Remote:  c.RemoteAddr().String(),
		DNS:     c.dns,
		Connect: c.connect,
		TLS:     c.handshake,
		Peer:    tlsInfo(c.Conn, c.serverName, c.secured),
	})
}

// local returns the local address, or "" if the connection is closed.
func (c *conn) local() string {
	if addr := c.LocalAddr(); addr != nil {
		return addr.String()
	}
	return ""
}

// close closes the connection and ends its pump.
func (c *conn) close() {
	_ = c.Conn.Close()
	c.strays.close()
	c.stop()
	if c.drained != nil {
		close(c.drained)
	}
}
