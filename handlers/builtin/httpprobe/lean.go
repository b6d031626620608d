package httpprobe

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/probe"
)

// exchange is an attempt without net/http: one request, and an ordinary response. It is returned to a
// pool, unless net/http must continue it.
type exchange struct {
	attempt
	at       network.Endpoint
	asked    probe.Request // attempt.req points to it
	conn     net.Conn      // nil if the dial or the TLS handshake failed
	http2    bool          // the TLS handshake negotiated HTTP/2
	stream   *stream       // response over HTTP/2; nil if nothing was sent
	keeper   *reusing      // keeps the connection for the next attempt; nil if it is not kept
	link     link          // the connection, if there is a keeper
	stop     func() bool   // result of network.Until
	sent     []byte        // the request
	written  int           // number of bytes written
	received []byte
	response response
	small    []byte
	large    *[largeSize]byte

	dialErr, writeErr, readErr error
}

const (
	smallSize = 2 << 10                 // for most responses
	largeSize = probe.MaxOutput * 8 / 5 // for all others: a head of 6 KiB, and the body
	maxKept   = 8 << 10                 // largest request buffer that is pooled
	onePacket = 1200
)

var (
	exchanges    = sync.Pool{New: func() any { return &exchange{small: make([]byte, smallSize)} }}
	largeBuffers = sync.Pool{New: func() any { return new([largeSize]byte) }}
)

// lean makes an attempt with a plain request without net/http. If the attempt takes an unusual course,
// net/http continues it.
func (h *bound) lean(ctx context.Context, req probe.Request, at network.Endpoint, keeper *reusing) (probe.Outcome, error) {
	x := exchanges.Get().(*exchange)
	x.bound, x.asked, x.at, x.keeper = h, req, at, keeper
	x.req = &x.asked
	x.progress.Unix, x.progress.Traced = at.Unix, req.Trace != nil
	if !x.exchange(ctx) {
		return x.resume(ctx)
	}
	x.progress.Done()
	var out probe.Outcome
	if x.http2 {
		out = x.answer(x.stream.head.status, x.stream.content())
	} else {
		out = x.answer(x.response.status, x.response.content(x.received))
	}
	if !x.stop() || keeper == nil || x.http2 || out.Result == probe.Failure || !x.isWhole() || !keeper.keep(x.link, idleOf(&req)) {
		_ = x.conn.Close()
	}
	x.trace(ctx, &out, nil)
	x.release()
	return out, nil
}

// exchange sends the request and receives the response. It returns false if net/http must continue the
// attempt, for example after an error.
func (x *exchange) exchange(ctx context.Context) (ok bool) {
	if x.take(ctx) {
		if ok = x.ask(); ok || !x.isUnanswered(ctx) {
			return ok
		}
		x.restart()
	}
	return x.connect(ctx) && x.ask()
}

// connect makes a connection. It returns false if net/http must continue the attempt.
func (x *exchange) connect(ctx context.Context) (ok bool) {
	if x.conn, x.dialErr = x.progress.Connect(x.dialContext(ctx), x.connector, x.at, x.afterDial()); x.dialErr != nil {
		return false
	}
	x.stop = network.Until(ctx, x.conn)
	if x.keeper != nil {
		x.link = link{at: x.at, in: netns.From(ctx), raw: network.Bare(x.conn)}
	}
	return !x.https || x.handshake(ctx)
}

// ask sends the request over the connection, and receives the response. It returns false if net/http must
// continue the attempt.
func (x *exchange) ask() (ok bool) {
	if x.http2 {
		return x.askHTTP2()
	}
	x.sent = x.lines.append(x.sent, x.at, x.end())
	if len(x.sent) > onePacket {
		network.NoDelay(x.conn)
	}
	if x.written, x.writeErr = x.conn.Write(x.sent); x.writeErr != nil {
		return false
	}
	x.received = x.small[:0]
	for {
		var n int
		n, x.readErr = x.conn.Read(x.received[len(x.received):cap(x.received)])
		x.received = x.received[:len(x.received)+n]
		if n > 0 && n == len(x.received) {
			x.progress.FirstByte()
		}
		switch err := x.response.parse(x.received, x.readErr == io.EOF); {
		case err == nil:
			return true
		case err == errOdd, x.readErr != nil, n == 0:
			return false
		}
		if len(x.received) == cap(x.received) && !x.grow() {
			return false
		}
		if x.response.body > 0 && !x.answered {
			x.progress.Answered(x.response.status)
			x.answered = true
		}
	}
}

// dialContext returns the context for the dial. It hides the deadline from the default dialer, which would
// time out slightly early, or divide the time between several addresses.
func (x *exchange) dialContext(ctx context.Context) context.Context {
	if x.ownDial {
		if ip, err := netip.ParseAddr(x.at.Host); err == nil && !ip.IsUnspecified() && x.at.Unix == "" {
			return ctx
		}
	}
	return withoutDeadline{ctx}
}

// grow replaces the small buffer by a large one. It returns false if the large buffer is full.
func (x *exchange) grow() bool {
	if x.large != nil {
		return false
	}
	x.large = largeBuffers.Get().(*[largeSize]byte)
	x.received = append(x.large[:0], x.received...)
	return true
}

// release returns an exchange to the pool.
func (x *exchange) release() {
	if x.large != nil {
		largeBuffers.Put(x.large)
	}
	if s := x.stream; s != nil {
		s.Reset()
		s.In, s.head, s.body = nil, head{}, 0
		streams.Put(s)
	}
	sent := x.sent[:0]
	if cap(sent) > maxKept {
		sent = nil
	}
	*x = exchange{sent: sent, small: x.small}
	exchanges.Put(x)
}
