// Package capture records real connections and their bytes, from which protocols make peers for a
// replay. Read [Conn] first: one connection of any protocol.
package capture

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/probe"
)

// Limits of the recorded bytes. Further bytes are dropped and counted.
const (
	maxConn    = 64 << 10 // of a connection
	maxAttempt = 512 << 10
)

// Budget is the number of bytes of an attempt that may still be recorded.
type Budget struct {
	mu   sync.Mutex
	left int
}

// NewBudget returns the budget of an attempt.
func NewBudget() *Budget { return &Budget{left: maxAttempt} }

// take returns how many of n more bytes may be recorded, and subtracts them.
func (b *Budget) take(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.left)
	b.left -= n
	return n
}

// Attempt is a recorded attempt without its connections.
type Attempt struct {
	Target     probe.Target
	Names      map[string][]netip.Addr // results of look-ups
	DNSServers []string                // for look-ups that name no server
	Echoes     []Echo                  // in order

	Seed   *uint64   // of the guest's random bytes; nil: they had none
	Time   time.Time // of the guest's clock at the start, if it had a seed
	Random [][]byte  // the first random bytes that the guest has read, in order
}

// Echo is one ICMP echo request, and its reply or its error.
type Echo struct {
	Addr     netip.Addr
	HopLimit int // of the reply
	Latency  time.Duration
	Err      error
}

// Host returns the name of an address that no other address shares, or the address.
func (a *Attempt) Host(addr netip.Addr) string {
	for _, host := range slices.Sorted(maps.Keys(a.Names)) {
		if addrs := a.Names[host]; len(addrs) == 1 && addrs[0] == addr {
			return host
		}
	}
	return addr.String()
}

// Take returns the descriptions of the connections that describe recognises, and the other
// connections.
func Take[T any](a *Attempt, conns []*Summary, describe func(*Summary, *Attempt) (T, bool)) (taken []T, rest []*Summary) {
	for _, c := range conns {
		if one, ok := describe(c, a); ok {
			taken = append(taken, one)
		} else {
			rest = append(rest, c)
		}
	}
	return taken, rest
}

// Conn is one connection that was dialled, or a failed dial.
type Conn struct {
	Network, Addr string
	HTTP          bool // the host dialled it for a request of HTTP
	Begun         time.Time

	budget *Budget
	now    func() time.Time

	mu      sync.Mutex
	latency time.Duration // of the dial
	err     error         // of the dial
	events  []Event
	size    int
	dropped int
	tls     *cert.Spec
}

// Event is one thing that happened on a connection.
type Event struct {
	At   time.Time
	Kind Kind
	Data []byte
}

// Kind is the kind of an [Event].
type Kind int

// The kinds of events. Sent is sent by the plugin.
const (
	Sent Kind = iota
	Received
	Handshake
	Ended
	Reset
	Unreachable // the UDP port is not open
)

// Start records the start of a dial.
func Start(network, addr string, http bool, budget *Budget, now func() time.Time) *Conn {
	return &Conn{Network: network, Addr: addr, HTTP: http, Begun: now(), budget: budget, now: now}
}

// Dialled records the result of the dial. The returned connection records the bytes of conn.
func (c *Conn) Dialled(conn net.Conn, err error) (net.Conn, error) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latency, c.err = now.Sub(c.Begun), err
	if err != nil {
		return nil, err
	}
	return &noted{Conn: conn, capture: c}, nil
}

// HandshakeFunc makes a TLS handshake over conn, and returns the TLS connection.
type HandshakeFunc = func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error)

// Secure makes a TLS handshake over a connection from [Conn.Dialled]. From then on it records the
// plain text.
func Secure(ctx context.Context, conn net.Conn, config *tls.Config, handshake HandshakeFunc) (net.Conn, error) {
	raw, ok := conn.(*noted)
	if !ok {
		return handshake(ctx, conn, config)
	}
	secured, err := handshake(ctx, raw.Conn, config)
	var state tls.ConnectionState
	if s, ok := secured.(interface{ ConnectionState() tls.ConnectionState }); ok && err == nil {
		state = s.ConnectionState()
	}
	raw.capture.handshake(state, err)
	if err != nil {
		return nil, err
	}
	return &securelyNoted{noted{secured, raw.capture}, state}, nil
}

func (c *Conn) handshake(state tls.ConnectionState, err error) {
	now := c.now()
	shown := cert.Valid()
	if failed, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		state.PeerCertificates = failed.UnverifiedCertificates
	}
	if len(state.PeerCertificates) > 0 {
		shown = cert.Of(state, now)
	}
	if err != nil {
		shown.Error = strings.TrimPrefix(certificates.Explain(err, now).Error(), "tls: ") // as the host shows it
	}
	c.note(Handshake, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tls = shown
}

// noted is a connection whose bytes are recorded.
type noted struct {
	net.Conn
	capture *Conn
}

// securelyNoted is a recorded connection after a TLS handshake.
type securelyNoted struct {
	noted
	state tls.ConnectionState
}

// ConnectionState returns the state after the handshake.
func (s *securelyNoted) ConnectionState() tls.ConnectionState { return s.state }

// Read implements [net.Conn].
func (n *noted) Read(p []byte) (int, error) {
	size, err := n.Conn.Read(p)
	if size > 0 {
		n.capture.note(Received, p[:size])
	}
	switch {
	case err == io.EOF:
		n.capture.note(Ended, nil)
	case IsReset(err):
		n.capture.note(Reset, nil)
	case errors.Is(err, syscall.ECONNREFUSED):
		n.capture.note(Unreachable, nil)
	}
	return size, err
}

// Write implements [net.Conn]. It records the bytes before it sends them, since the answer may
// arrive before Write returns.
func (n *noted) Write(p []byte) (int, error) {
	n.capture.note(Sent, p)
	size, err := n.Conn.Write(p)
	n.capture.unsend(len(p) - size)
	return size, err
}

// IsReset reports whether the other side has reset a connection.
func IsReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (c *Conn) note(kind Kind, data []byte) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	room := c.budget.take(min(len(data), maxConn-c.size))
	if len(data) > 0 && c.dropped > 0 {
		room = 0
	}
	c.size += room
	c.dropped += len(data) - room
	if len(data) > 0 && room == 0 {
		return
	}
	last := len(c.events) - 1
	if last >= 0 && c.events[last].Kind == kind && c.Network != "udp" {
		c.events[last].Data = append(c.events[last].Data, data[:room]...)
		return
	}
	c.events = append(c.events, Event{now, kind, append([]byte(nil), data[:room]...)})
}

// unsend removes the last n recorded bytes, which a failed Write did not send. The caller may send
// them again.
func (c *Conn) unsend(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n -= min(n, c.dropped) // these were never recorded
	for i := len(c.events) - 1; i >= 0 && n > 0; i-- {
		e := &c.events[i]
		if e.Kind != Sent {
			continue
		}
		k := min(n, len(e.Data))
		e.Data, c.size, n = e.Data[:len(e.Data)-k], c.size-k, n-k
		if len(e.Data) == 0 {
			c.events = slices.Delete(c.events, i, i+1)
		}
	}
}

// Summary is a copy of the record of a connection.
type Summary struct {
	*Conn
	Latency time.Duration // of the dial
	Err     error         // of the dial
	Events  []Event
	Dropped int        // number of bytes above the limit
	TLS     *cert.Spec // certificate of the peer; nil for none
}

// Summary returns the record so far.
func (c *Conn) Summary() *Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Summary{c, c.latency, c.err, slices.Clone(c.events), c.dropped, c.tls}
}

// Has reports whether s has an event of a kind.
func (s *Summary) Has(kind Kind) bool {
	return slices.ContainsFunc(s.Events, func(e Event) bool { return e.Kind == kind })
}

// AddrPort returns the IP address and port; false for a unix socket.
func (s *Summary) AddrPort() (netip.AddrPort, bool) {
	at, err := netip.ParseAddrPort(s.Addr)
	return at, err == nil
}

// Rounded returns a duration with three or four digits.
func Rounded(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(100 * time.Microsecond)
	default:
		return d.Round(10 * time.Microsecond)
	}
}
