package httpprobe

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/daeace23/prober/probe"
)

// resume has net/http continue an attempt on its connection, so that the answer is that of
// net/http. x is not used again: net/http may use the connection for a moment after the answer.
func (x *exchange) resume(ctx context.Context) (probe.Outcome, error) {
	later := &laterContext{Context: context.WithValue(ctx, attemptKey{}, &x.attempt), done: make(chan struct{})}
	x.ctx = withoutDeadline{ctx}
	unsent := x.sent
	if x.keeper != nil {
		unsent = x.lines.append(nil, x.at, closing) // net/http would not keep the connection
	}
	x.begun = &begun{Conn: x.conn, exchange: x, later: later, unsent: unsent, unread: x.received, wrote: make(chan struct{}), closed: make(chan struct{})}
	defer x.begun.Close()
	if x.conn == nil || x.http2 {
		later.begin()
	}
	u, err := x.url(x.at)
	if err != nil {
		return probe.Outcome{}, err
	}
	of := context.Context(later)
	if x.https {
		x.ctx, of = withoutDeadline{x.progress.Hooks(ctx)}, x.progress.Hooks(of)
	}
	out, err := x.get(ctx, x.resuming, x.newRequest(of, u))
	x.progress.Explain(ctx, nil, &out)
	return out, err
}

// begun is the connection of an attempt that net/http continues. It drops what net/http writes,
// since that was sent before, and returns what was received before. Then it is the connection.
type begun struct {
	net.Conn // nil if the dial failed
	exchange *exchange
	later    *laterContext
	taken    bool        // by a request; used by the goroutine of the attempt
	handed   atomic.Bool // net/http has the connection itself, for HTTP/2
	unsent   []byte
	unread   []byte
	wrote    chan struct{} // closed when net/http has written the request
	close    sync.Once
	closed   chan struct{}
}

var errRequestDiffers = errors.New("net/http sends another request")

// Write implements [net.Conn].
func (b *begun) Write(p []byte) (n int, err error) {
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

// Read implements [net.Conn]. It waits for the request: a response before it is an error to
// net/http.
func (b *begun) Read(p []byte) (int, error) {
	select {
	case <-b.wrote:
	case <-b.closed:
		return 0, net.ErrClosed
	}
	if len(b.unread) > 0 {
		n := copy(p, b.unread)
		b.unread = b.unread[n:]
		return n, nil
	}
	b.later.begin()
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

// Close implements [net.Conn].
func (b *begun) Close() (err error) {
	b.close.Do(func() {
		b.later.begin()
		if b.Conn != nil && !b.handed.Load() {
			b.exchange.stop()
			err = b.Conn.Close()
		}
		close(b.closed)
	})
	return err
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

// resumingTransport makes the first request of an attempt on its connection, and those of
// redirects on connections of their own.
type resumingTransport struct{ begun, fresh *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (t *resumingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	b := req.Context().Value(attemptKey{}).(*attempt).begun
	if !b.taken {
		b.taken = true
		return t.begun.RoundTrip(req)
	}
	b.later.begin()
	return t.fresh.RoundTrip(req)
}

// dialBegun is the dial of the first request.
func dialBegun(ctx context.Context, _, _ string) (net.Conn, error) {
	a := ctx.Value(attemptKey{}).(*attempt)
	b := a.begun
	if b.Conn == nil {
		return nil, a.dialError(b.exchange.dialErr)
	}
	if b.exchange.http2 {
		b.exchange.stop()
		b.handed.Store(true)
		return b.Conn, nil
	}
	return b, nil
}
