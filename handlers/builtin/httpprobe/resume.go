package httpprobe

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/handlers/builtin/internal/http2"
	"github.com/daeace23/prober/probe"
)

// resume lets net/http continue an attempt on its connection, and returns the outcome that net/http
// produces. x is not returned to the pool, because net/http may use the connection for a moment
// afterwards.
func (x *exchange) resume(ctx context.Context) (probe.Outcome, error) {
	later := &laterContext{Context: context.WithValue(ctx, attemptKey{}, &x.attempt), done: make(chan struct{})}
	lasts, end := context.WithCancel(ctx)
	x.ctx, x.lasts = withoutDeadline{ctx}, lasts
	x.resumed = x.begin(later)
	defer x.resumed.leave()
	defer end()
	if x.conn == nil {
		later.begin()
	}
	u, err := x.url(x.at)
	if err != nil {
		return probe.Outcome{}, err
	}
	of := context.Context(later)
	if x.hooked = x.https || x.req.Trace != nil; x.hooked {
		x.ctx, of = withoutDeadline{x.progress.Hooks(ctx)}, x.progress.Hooks(of)
	}
	client := x.resuming
	switch fresh := x.isolate(ctx, x.client); {
	case x.resumed.replay != nil:
		client = x.resumingOn(unencryptedHTTP2(), fresh)
	case fresh != x.client:
		client = x.resumingOn(nil, fresh)
	}
	out, err := x.get(ctx, client, x.newRequest(of, u))
	x.trace(ctx, &out, err)
	return out, err
}

// begin returns the connection with which net/http continues.
func (x *exchange) begin(later *laterContext) *resumedConn {
	b := &resumedConn{Conn: x.conn, exchange: x, later: later, wrote: make(chan struct{}), closed: make(chan struct{})}
	if x.conn != nil {
		b.lifetime.begin(x.lasts, x.raw())
	}
	if x.conn == nil || !x.http2 {
		b.unsent, b.unread = x.sent, x.received
		if x.keeper != nil {
			b.unsent = x.lines.append(nil, x.at, closing) // the request that net/http will write: it does not keep connections
		}
		b.returned.Store(true)
		return b
	}
	if !x.stop() { // allow net/http to send a reset
		_ = x.conn.SetDeadline(time.Time{})
	}
	exchange, preface := new(http2.Exchange), ""
	if x.stream != nil {
		exchange, preface = &x.stream.Exchange, http2.ClientPreface
	}
	b.replay = exchange.Replay(x.conn, []byte(preface), 0)
	b.returned.Store(x.stream == nil || !x.stream.head.complete)
	return b
}

// raw returns the connection below TLS.
func (x *exchange) raw() net.Conn {
	if x.link.tls != nil {
		return x.link.tls.NetConn()
	}
	return x.conn
}

// resumingOn returns a new client for the attempt, because other attempts at the same host must not use its
// connections. net/http assumes that a connection that is not a [tls.Conn] has no TLS, and then protocols
// must say that it uses HTTP/2. Requests after the first one are made by fresh.
func (x *exchange) resumingOn(protocols *http.Protocols, fresh *http.Client) *http.Client {
	client := *x.resuming
	client.Transport = &resumingTransport{newResumed(protocols), fresh.Transport}
	return &client
}

// newResumed returns a transport for a connection on which an exchange has begun.
func newResumed(protocols *http.Protocols) *http.Transport {
	t := newTransport(dialBegun, protocols)
	t.DialTLSContext = dialBegun
	return t
}

// resumedConn is the connection of an attempt that net/http continues. It drops the request that net/http
// writes, because the request was already sent. Reads first return the bytes that were already received.
// After that it passes everything through.
type resumedConn struct {
	net.Conn // nil if the dial failed
	lifetime lifetime
	exchange *exchange
	later    *laterContext
	taken    bool          // a request uses it; used by the goroutine of the attempt only
	handed   atomic.Bool   // net/http has got the connection from its dial
	replay   *http2.Replay // for HTTP/2; nil otherwise
	unsent   []byte
	unread   []byte
	wrote    chan struct{} // closed when net/http has written the request
	close    sync.Once
	closed   chan struct{}

	read     atomic.Bool // all bytes received before were read
	returned atomic.Bool // net/http has returned the response, or there was no complete response before
}

var errRequestDiffers = errors.New("net/http sends another request")

// Write implements [net.Conn].
func (b *resumedConn) Write(p []byte) (n int, err error) {
	if b.replay != nil {
		if err = b.exchange.writeErr; err != nil {
			return 0, err
		}
		return b.replay.Write(p)
	}
	if !bytes.HasPrefix(b.unsent, p) {
		return 0, errRequestDiffers
	}
	b.unsent = b.unsent[len(p):]
	if n, err = len(p), b.exchange.writeErr; err != nil {
		n, b.unsent = min(n, b.exchange.written), nil
	}
	if len(p) > 0 && len(b.unsent) == 0 {
		close(b.wrote)
	}
	return n, err
}

// Read implements [net.Conn].
func (b *resumedConn) Read(p []byte) (int, error) {
	if n, ok, err := b.readBefore(p); ok {
		return n, err
	}
	b.read.Store(true)
	b.mayEnd()
	// A socket reports an error once. net/http relies on that: it reads again after a part of a
	// line.
	n, err := 0, b.exchange.readErr
	b.exchange.readErr = nil
	if err == nil {
		n, err = b.Conn.Read(p)
	}
	if err != nil && b.later.Context.Err() != nil {
		<-b.closed // makes net/http return the error of the context
	}
	return n, err
}

// readBefore reads bytes that were received before. It waits until net/http has written the request,
// because net/http takes an earlier response for an error. ok is false if all bytes were read.
func (b *resumedConn) readBefore(p []byte) (n int, ok bool, err error) {
	if b.replay != nil {
		return b.replay.Read(p)
	}
	select {
	case <-b.wrote:
	case <-b.closed:
		return 0, true, net.ErrClosed
	}
	n = copy(p, b.unread)
	b.unread = b.unread[n:]
	return n, n > 0, nil
}

// hasReturned records that net/http has returned the response.
func (b *resumedConn) hasReturned() {
	b.returned.Store(true)
	b.mayEnd()
}

// mayEnd lets the context end once net/http has seen all bytes that were received before.
func (b *resumedConn) mayEnd() {
	if b.read.Load() && b.returned.Load() {
		b.later.begin()
	}
}

// Close implements [net.Conn].
func (b *resumedConn) Close() (err error) {
	b.close.Do(func() {
		b.later.begin()
		if b.replay != nil {
			b.replay.Close()
			raw := b.exchange.raw()
			defer time.AfterFunc(closeTimeout, func() { _ = raw.Close() }).Stop()
		}
		if b.Conn != nil {
			b.exchange.stop()
			err = b.Conn.Close()
			b.lifetime.end()
		}
		close(b.closed)
	})
	return err
}

// leave closes the connection after the attempt. If net/http has the connection over HTTP/2, it may send a
// reset first.
func (b *resumedConn) leave() {
	if b.replay != nil && b.handed.Load() {
		b.later.begin()
		return
	}
	_ = b.Close()
}

// laterContext is a context that ends with another one, but not before begin is called, because net/http must
// see the bytes that were received before the end.
type laterContext struct {
	context.Context
	once sync.Once
	done chan struct{}
}

func (c *laterContext) begin() {
	c.once.Do(func() { context.AfterFunc(c.Context, func() { close(c.done) }) })
}

// Done implements [context.Context].
func (c *laterContext) Done() <-chan struct{} { return c.done }

// Err implements [context.Context].
func (c *laterContext) Err() error {
	select {
	case <-c.done:
		return c.Context.Err()
	default:
		return nil
	}
}

// resumingTransport makes the first request of an attempt on the existing connection. Repeated requests and
// redirects get new connections.
type resumingTransport struct {
	resumed *http.Transport
	fresh   http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *resumingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	b := req.Context().Value(attemptKey{}).(*attempt).resumed
	if !b.taken {
		b.taken = true
		if res, err := t.resumed.RoundTrip(req); !errors.Is(err, errDialledAgain) {
			return res, err
		}
	}
	b.later.begin()
	return t.fresh.RoundTrip(req)
}

// errDialledAgain means that net/http repeats a request because the server has refused it.
var errDialledAgain = errors.New("net/http dials again")

// dialBegun is the dial function for the first request.
func dialBegun(ctx context.Context, _, _ string) (net.Conn, error) {
	a := ctx.Value(attemptKey{}).(*attempt)
	b := a.resumed
	if b.Conn == nil {
		return nil, a.dialError(b.exchange.dialErr)
	}
	if b.handed.Swap(true) {
		return nil, errDialledAgain
	}
	return b, nil
}
