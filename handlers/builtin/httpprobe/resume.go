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

// resume has net/http continue an attempt on its connection, so that the answer is that of
// net/http. x is not used again: net/http may use the connection for a moment after the answer.
func (x *exchange) resume(ctx context.Context) (probe.Outcome, error) {
	later := &laterContext{Context: context.WithValue(ctx, attemptKey{}, &x.attempt), done: make(chan struct{})}
	lasts, end := context.WithCancel(ctx)
	x.ctx, x.lasts = withoutDeadline{ctx}, lasts
	x.begun = x.begin(later)
	defer x.begun.leave()
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
	switch fresh := x.apart(ctx, x.client); {
	case x.begun.replay != nil:
		client = x.resumingOn(unencryptedHTTP2(), fresh)
	case fresh != x.client:
		client = x.resumingOn(nil, fresh)
	}
	out, err := x.get(ctx, client, x.newRequest(of, u))
	x.trace(ctx, &out, err)
	return out, err
}

// begin returns the connection for net/http.
func (x *exchange) begin(later *laterContext) *begun {
	b := &begun{Conn: x.conn, exchange: x, later: later, wrote: make(chan struct{}), closed: make(chan struct{})}
	if x.conn != nil {
		b.lifetime.begin(x.lasts, x.raw())
	}
	if x.conn == nil || !x.http2 {
		b.unsent, b.unread = x.sent, x.received
		if x.keeper != nil {
			b.unsent = x.lines.append(nil, x.at, closing) // net/http would not keep the connection
		}
		b.returned.Store(true)
		return b
	}
	if !x.stop() { // net/http still sends a reset
		_ = x.conn.SetDeadline(time.Time{})
	}
	of, preface := new(http2.Exchange), ""
	if x.stream != nil {
		of, preface = &x.stream.Exchange, http2.ClientPreface
	}
	b.replay = of.Replay(x.conn, []byte(preface), 0)
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

// resumingOn returns a client of its own for the attempt: other attempts at the same host must not use its
// connections. net/http takes a connection that is no [tls.Conn] for one without TLS, and then wants to
// be told that its protocol is HTTP/2. Requests after the first one are those of fresh.
func (x *exchange) resumingOn(protocols *http.Protocols, fresh *http.Client) *http.Client {
	client := *x.resuming
	client.Transport = &resumingTransport{newResumed(protocols), fresh.Transport}
	return &client
}

// newResumed returns a transport whose connection was begun.
func newResumed(protocols *http.Protocols) *http.Transport {
	t := newTransport(dialBegun, protocols)
	t.DialTLSContext = dialBegun
	return t
}

// begun is the connection of an attempt that net/http continues. It drops what net/http writes,
// since that was sent before, and returns what was received before. Then it is the connection.
type begun struct {
	net.Conn // nil if the dial failed
	lifetime lifetime
	exchange *exchange
	later    *laterContext
	taken    bool          // by a request; used by the goroutine of the attempt
	handed   atomic.Bool   // net/http has dialled
	replay   *http2.Replay // of HTTP/2; nil otherwise
	unsent   []byte
	unread   []byte
	wrote    chan struct{} // closed when net/http has written the request
	close    sync.Once
	closed   chan struct{}

	read     atomic.Bool // all that was received before
	returned atomic.Bool // net/http has returned the response, if that was received before
}

var errRequestDiffers = errors.New("net/http sends another request")

// Write implements [net.Conn].
func (b *begun) Write(p []byte) (n int, err error) {
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
func (b *begun) Read(p []byte) (int, error) {
	if n, ok, err := b.readBefore(p); ok {
		return n, err
	}
	b.read.Store(true)
	b.mayEnd()
	// An error of a socket is reported once, which net/http relies on: it reads again after a part
	// of a line.
	n, err := 0, b.exchange.readErr
	b.exchange.readErr = nil
	if err == nil {
		n, err = b.Conn.Read(p)
	}
	if err != nil && b.later.Context.Err() != nil {
		<-b.closed // so that net/http returns the error of the context
	}
	return n, err
}

// readBefore reads what was received before. It waits for the request: a response before it is an
// error to net/http. ok is false if all was read.
func (b *begun) readBefore(p []byte) (n int, ok bool, err error) {
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

// hasReturned notes that net/http has returned.
func (b *begun) hasReturned() {
	b.returned.Store(true)
	b.mayEnd()
}

// mayEnd begins the end of the context if net/http has seen all that was received before it.
func (b *begun) mayEnd() {
	if b.read.Load() && b.returned.Load() {
		b.later.begin()
	}
}

// Close implements [net.Conn].
func (b *begun) Close() (err error) {
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

// leave closes the connection after the attempt. Over HTTP/2, net/http may still send a reset before it
// closes a connection that it has.
func (b *begun) leave() {
	if b.replay != nil && b.handed.Load() {
		b.later.begin()
		return
	}
	_ = b.Close()
}

// laterContext is a context that ends as another does, but only after begin: net/http has to see
// what was received before the end.
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

// resumingTransport makes the first request of an attempt on its connection, and those that repeat it
// or follow a redirect on connections of their own.
type resumingTransport struct {
	begun *http.Transport
	fresh http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *resumingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	b := req.Context().Value(attemptKey{}).(*attempt).begun
	if !b.taken {
		b.taken = true
		if res, err := t.begun.RoundTrip(req); !errors.Is(err, errDialledAgain) {
			return res, err
		}
	}
	b.later.begin()
	return t.fresh.RoundTrip(req)
}

// errDialledAgain means that net/http repeats a request, since the server has refused it.
var errDialledAgain = errors.New("net/http dials again")

// dialBegun is the dial of the first request.
func dialBegun(ctx context.Context, _, _ string) (net.Conn, error) {
	a := ctx.Value(attemptKey{}).(*attempt)
	b := a.begun
	if b.Conn == nil {
		return nil, a.dialError(b.exchange.dialErr)
	}
	if b.handed.Swap(true) {
		return nil, errDialledAgain
	}
	return b, nil
}
