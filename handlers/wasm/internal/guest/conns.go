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
	case !conn.Release(): // it would be ended with ctx
		_ = conn.Close()
		return new(net.Dialer).DialContext(ctx, network, address) // the error of a dial with an ended context
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
	if errors.Is(err, syscall.EADDRNOTAVAIL) { // which would be the host's lack of ports, see probe.HostReason
		return nil, fmt.Errorf("dial %s %s: %s is not an address of this host", network, address, source)
	}
	return conn, err
}

// network is the connections of one call. It belongs to the call's goroutine. The pumps of the
// connections use wake only.
type network struct {
	conns   []*conn // by handle; nil if closed
	open    int
	dials   []time.Time
	read    int
	written int
	wake    chan struct{} // signalled when a connection has something to read
	pumps   sync.WaitGroup
}

// countDial counts a dial. It returns an error if that is above the limits of the call.
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

// add returns a handle for c. The connection is closed when ctx ends, because nothing else ends
// a Read of any kind of connection.
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

// Sizes of the buffers of pumps in bytes.
const (
	firstBuffer = 2 << 10
	pumpBuffer  = 16 << 10 // the largest, except of UDP
	datagram    = 64 << 10 // of UDP
)

// conn is a connection of a guest. A goroutine, its pump, reads ahead of the guest, because that
// is the only way to read from any net.Conn without blocking.
type conn struct {
	net.Conn
	raw          net.Conn // the connection below TLS
	network      string   // "tcp", "udp", "tls" or "unix"
	host         string   // as the guest named it
	dns, connect time.Duration
	handshake    time.Duration   // of TLS
	serverName   string          // of TLS
	ctx          context.Context // of the call
	stop         func() bool     // stops watching ctx
	more         chan struct{}   // signals the pump that the guest has read everything; nil before the pump starts
	pumped       chan struct{}   // closed when the pump has ended

	sent, received atomic.Int64

	ahead   []byte // of reads without a pump
	limited bool   // such a read has set a deadline

	mu   sync.Mutex
	data []byte
	err  error
}

// ready reports whether there is something to read, and starts the pump if necessary.
func (c *conn) ready(n *network) bool {
	if r, ok := readinessOf(c.Conn); ok {
		return r.Ready()
	}
	if c.more == nil && c.err == nil && len(c.data) == 0 {
		_ = c.setReadDeadline(time.Time{})
		c.more, c.pumped = make(chan struct{}, 1), make(chan struct{})
		reads, more, pumped := c.Conn, c.more, c.pumped
		n.pumps.Go(func() {
			defer close(pumped)
			c.pump(reads, more, n.wake)
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

// readsAlone reports whether a read that waits may use the connection itself, without a pump: it is a
// stream of the system, whose reads can be interrupted, and nothing else has begun to read it.
func (c *conn) readsAlone(clock Clock) bool {
	if _, real := clock.(SystemClock); !real || c.more != nil || c.err != nil || len(c.data) > 0 {
		return false
	}
	switch c.Conn.(type) {
	case *rawconn.Conn, *net.TCPConn, *net.UnixConn:
		return true
	default:
		return false
	}
}

// readAtOnce reads to p, and does not wait. It returns false if there may be something to wait for.
func (c *conn) readAtOnce(p []byte) (n int, done bool, err error) {
	own, ok := c.Conn.(*rawconn.Conn)
	if !ok {
		return 0, false, nil
	}
	into := c.reading(p)
	if n, err = own.TryRead(into); err == syscall.EAGAIN {
		return 0, false, nil
	}
	n, err = c.took(p, into, n, err)
	return n, true, err
}

// readWithin reads to p, and waits for the guest's timeout or the end of the call. It returns
// nothing after the timeout.
func (c *conn) readWithin(p []byte, timeoutMs int32) (n int, err error) {
	var until time.Time
	if timeoutMs > 0 {
		until = time.Now().Add(time.Duration(timeoutMs) * time.Millisecond)
	}
	if err := c.setReadDeadline(until); err != nil {
		return 0, err
	}
	into := c.reading(p)
	n, err = c.Read(into)
	return c.took(p, into, n, err)
}

// setReadDeadline sets the deadline of reads that use the connection itself. The zero time means none.
func (c *conn) setReadDeadline(until time.Time) error {
	if until.IsZero() && !c.limited {
		return nil
	}
	c.limited = !until.IsZero()
	return c.SetReadDeadline(until)
}

// reading returns where to read for p: a small read reads ahead, as the pump does.
func (c *conn) reading(p []byte) []byte {
	if len(p) >= firstBuffer {
		return p
	}
	if c.ahead == nil {
		c.ahead = make([]byte, firstBuffer)
	}
	return c.ahead
}

// took returns the result for p of a read of n bytes to into.
func (c *conn) took(p, into []byte, n int, err error) (int, error) {
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
func (c *conn) pump(reads net.Conn, more <-chan struct{}, wake chan<- struct{}) {
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
		if _, ok := <-more; !ok {
			return
		}
		if n == len(buf) && n < pumpBuffer {
			buf = make([]byte, 2*n)
		}
	}
}

// readBuffered copies what the pump has read to p, and does not wait.
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
	if len(c.data) == 0 && c.err == nil && n > 0 && c.more != nil {
		c.more <- struct{}{}
	}
	return n, nil
}

// writeAtOnce writes p, and does not wait. It returns false if not all of it was written.
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
	// A write of TLS that was interrupted cannot be continued.
	if timeoutMs >= 0 && c.network != "tls" {
		// With a timeout of 0 net.Conn would not try at all.
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
		Peer:    tlsInfo(c.Conn, c.serverName),
	})
}

// local returns the address of this end, "" if the connection is closed.
func (c *conn) local() string {
	if addr := c.LocalAddr(); addr != nil {
		return addr.String()
	}
	return ""
}

// close closes the connection and ends its pump.
func (c *conn) close() {
	_ = c.Conn.Close()
	c.stop()
	if c.more != nil {
		close(c.more)
	}
}
