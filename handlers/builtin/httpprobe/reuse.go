package httpprobe

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/probe"
)

// reusing is a bound handler that keeps a connection for its next attempt. See [Action.Reuse].
// See RATIONALE.md, "Why does a probe keep its connection only by an opt-in?"
type reusing struct {
	*bound

	mu       sync.Mutex
	kept     link // the kept connection; zero if there is none
	until    time.Time
	expiry   *time.Timer // nil until a connection is kept
	released bool
}

var _ probe.Releaser = (*reusing)(nil)

// link is a connection that attempts share.
type link struct {
	at    network.Endpoint
	in    *netns.Namespace
	raw   net.Conn
	tls   *tls.Conn // TLS over below; nil without TLS
	below *lower
	shown certificates.Shown // in the handshake
}

func (h *reusing) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	return h.probe(ctx, req, h)
}

// Release implements [probe.Releaser]. A new goroutine closes the connection, because closing may block,
// see [probe.CompatLinger].
func (h *reusing) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released, h.until = true, time.Time{}
	if h.expiry != nil {
		h.expiry.Reset(0)
	}
}

// keep keeps l until it was unused for the duration idle. It returns false if it does not keep l.
func (h *reusing) keep(l link, idle time.Duration) (ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released || h.kept.raw != nil {
		return false
	}
	if l.below != nil {
		l.below.Conn = l.raw // drop the attempt's connection, which counts bytes
	}
	h.kept, h.until = l, time.Now().Add(idle)
	if h.expiry == nil {
		h.expiry = time.AfterFunc(idle, h.expire)
	} else {
		h.expiry.Reset(idle)
	}
	return true
}

// expire closes the connection if it was unused for too long.
func (h *reusing) expire() {
	h.mu.Lock()
	if time.Now().Before(h.until) { // used meanwhile
		h.mu.Unlock()
		return
	}
	l := h.kept
	h.kept = link{}
	h.mu.Unlock()
	l.close()
}

// take returns the kept connection if it leads to at in the network namespace in. Nothing may have arrived on
// it since the last response, neither its end nor an unrequested response.
func (h *reusing) take(at network.Endpoint, in *netns.Namespace) (l link, ok bool) {
	h.mu.Lock()
	l, h.kept = h.kept, link{}
	h.mu.Unlock()
	if l.raw == nil {
		return link{}, false
	}
	if l.at != at || l.in != in || !l.isQuiet() {
		l.close()
		return link{}, false
	}
	return l, true
}

func (l *link) close() {
	switch {
	case l.tls != nil:
		_ = l.tls.Close()
	case l.raw != nil:
		_ = l.raw.Close()
	}
}

// isQuiet reports whether nothing has arrived on the connection. It does not wait.
func (l *link) isQuiet() bool {
	var b [1]byte
	var err error
	if l.tls == nil {
		_, err = network.TryRead(l.raw, b[:])
	} else {
		l.below.tries = maxTries
		_, err = l.tls.Read(b[:])
		l.below.tries = 0
	}
	return errors.Is(err, syscall.EAGAIN)
}

// lower is the connection below TLS. Each attempt replaces Conn by a connection that counts its bytes.
type lower struct {
	net.Conn
	tries int // number of reads without waiting; 0 means that reads wait
}

// maxTries bounds the TLS messages that may arrive between attempts, such as session tickets.
const maxTries = 16

// Read implements [net.Conn].
func (l *lower) Read(b []byte) (int, error) {
	if l.tries == 0 {
		return l.Conn.Read(b)
	}
	if l.tries--; l.tries == 0 {
		l.tries = 1
		return 0, io.ErrNoProgress
	}
	// EAGAIN is a temporary error, after which a tls.Conn can be read again.
	return network.TryRead(l.Conn, b)
}

// maxIdle is how long a connection is kept if the request has no period.
const maxIdle = 90 * time.Second

// idleOf returns how long the connection of an attempt is kept.
func idleOf(req *probe.Request) time.Duration {
	if req.Spec.Period > 0 {
		return 2 * req.Spec.Period
	}
	return maxIdle
}

// end returns the last lines of the request.
func (x *exchange) end() string {
	if x.keeper != nil {
		return keeping
	}
	return closing
}

// take uses the kept connection for the attempt. It returns false if there is none.
func (x *exchange) take(ctx context.Context) (ok bool) {
	if x.keeper == nil {
		return false
	}
	if x.link, ok = x.keeper.take(x.at, netns.From(ctx)); !ok {
		return false
	}
	if network, address := x.at.Dialed(); netns.CheckDial(ctx, network, address) != nil { // the guard refuses the target since the dial; a new dial returns the reason
		x.link.close()
		x.link = link{}
		return false
	}
	x.conn = x.progress.Reuse(x.link.raw, x.at, x.link.shown, x.link.tls != nil, network.StepHTTP)
	x.stop = network.Until(ctx, x.conn)
	if x.link.tls != nil {
		x.link.below.Conn = x.conn
		x.conn = x.link.tls
	}
	return true
}

// isUnanswered reports whether a kept connection ended before the first byte of the response, for example
// because the server closed it at the same time.
func (x *exchange) isUnanswered(ctx context.Context) bool {
	failed := errors.Join(x.writeErr, x.readErr)
	return len(x.received) == 0 && failed != nil && !errors.Is(failed, os.ErrDeadlineExceeded) && ctx.Err() == nil
}

// restart closes the connection and resets x, so that the attempt can be made again.
func (x *exchange) restart() {
	x.stop()
	_ = x.conn.Close()
	x.conn, x.link, x.stop = nil, link{}, nil
	x.sent, x.written, x.received, x.response = x.sent[:0], 0, nil, response{}
	x.writeErr, x.readErr = nil, nil
}

// isWhole reports whether the server keeps the connection open, and sent only the response.
func (x *exchange) isWhole() bool {
	r := &x.response
	return x.readErr == nil && !r.http10 && !r.closing && r.end == len(x.received)
}
