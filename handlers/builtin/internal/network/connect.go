package network

import (
	"context"
	"net"
	"net/http/httptrace"
	"time"

	"github.com/daeace23/prober/handlers/internal/rawconn"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/probe"
)

// Conn is the type of connection that [Connector.Connect] makes on Linux.
type Conn = rawconn.Conn

// TryRead reads from conn without waiting, see [rawconn.TryRead].
func TryRead(conn net.Conn, b []byte) (int, error) { return rawconn.TryRead(conn, b) }

// Connector makes the connections of a handler. It is read-only.
type Connector struct {
	dial   DialFunc
	own    bool // there is no dial function of the embedder
	compat probe.Compat
}

// NewConnector returns a Connector that uses dial. If dial is nil, it uses [rawconn] and a [net.Dialer].
func NewConnector(dial DialFunc, compat probe.Compat) *Connector {
	return &Connector{dial: Dialer(dial, compat), own: dial == nil, compat: compat}
}

// Connect makes a connection to at, like Dial. It returns the same errors as a [net.Dialer].
//
// On Linux, if the host is an IP address, Connect returns a [*Conn], which costs less. Like every wait of
// a Conn, the wait for the connection ends with ctx.
func (c *Connector) Connect(ctx context.Context, at Endpoint) (net.Conn, error) {
	if to := at.literal(); c.own && at.Unix == "" && to.IsValid() && httptrace.ContextClientTrace(ctx) == nil && netns.CheckHost(ctx, at.Host, at.Port) == nil {
		if conn, known, err := rawconn.Dial(ctx, to); known {
			return c.finish(ctx, at, conn, err)
		}
	}
	return c.Dial(ctx, at)
}

// Dial makes a connection to at with the dial function of the embedder, or with a [net.Dialer]. The dialer
// reports its phases to the httptrace of ctx.
func (c *Connector) Dial(ctx context.Context, at Endpoint) (net.Conn, error) {
	network, address := at.Dialed()
	return c.dial(ctx, network, address)
}

// finish applies the settings of the handler to the result of a dial.
func (c *Connector) finish(ctx context.Context, at Endpoint, conn *Conn, err error) (net.Conn, error) {
	switch {
	case err != nil && !c.compat.Has(probe.CompatHostTrouble):
		network, address := at.Dialed()
		return nil, hostTrouble(rawconn.Unreachable(ctx, inNamespace, network, address, err))
	case err != nil:
		return nil, err
	case c.compat.Has(probe.CompatLinger):
		_ = conn.SetLinger(1)
	}
	return conn, nil
}

// Until makes reads and writes of conn return when ctx ends, with an error that matches
// [os.ErrDeadlineExceeded]. stop cancels this, and returns false if ctx has ended.
func Until(ctx context.Context, conn net.Conn) (stop func() bool) {
	conn = Bare(conn)
	if own, ok := conn.(*Conn); ok {
		return own.Until(ctx)
	}
	return context.AfterFunc(ctx, func() { _ = conn.SetDeadline(longAgo) })
}

// NoDelay disables Nagle's algorithm for conn. It matters for a [*Conn] that writes more than once, or
// more than fits into a packet.
func NoDelay(conn net.Conn) {
	if own, ok := Bare(conn).(*Conn); ok {
		_ = own.SetNoDelay(true)
	}
}

// Bare returns the connection below conn if conn counts bytes for a [Progress], and conn otherwise.
func Bare(conn net.Conn) net.Conn {
	if counted, ok := conn.(*countedConn); ok {
		return counted.Conn
	}
	return conn
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)
