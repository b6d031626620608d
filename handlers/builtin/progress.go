package builtin

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// step is a part of an attempt.
type step string

const (
	stepDNS   step = "dns"
	stepDial  step = "dial"
	stepTLS   step = "tls"
	stepHTTP2 step = "http2" // the settings of a gRPC connection
	stepHTTP  step = "http"
	stepBody  step = "body"
	stepGRPC  step = "grpc"
)

// progress tracks the current step of an attempt, to explain at the deadline what the attempt was
// waiting for. It is safe for concurrent use, since connections are made on other goroutines.
type progress struct {
	unix      string          // the socket that all connections go to; read-only, as are the next two
	uncounted bool            // connections do not count their bytes
	attempt   context.Context // for the dials of net/http

	mu        sync.Mutex
	at        step
	where     string
	since     time.Time
	connected time.Duration // how long the last dial took
	conn      *countedConn  // of the last dial; nil if it failed or is not counted
	failed    error         // of the last dial
	status    int           // of the response
}

// withoutDeadline is a context that ends with another, but hides its deadline: a dialer that
// knows it ends a moment earlier, which would change the text of the attempt's error.
type withoutDeadline struct{ context.Context }

// Deadline implements [context.Context].
func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// progressKey is the context key of the *progress of an HTTP attempt.
type progressKey struct{}

// enter begins a step.
func (p *progress) enter(at step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.since = at, time.Now()
}

// dial makes a connection that counts its bytes. next is the step after it.
func (p *progress) dial(ctx context.Context, dial dialFunc, network, address string, next step) (net.Conn, error) {
	if p.unix != "" {
		network, address = "unix", p.unix
	}
	start := time.Now()
	p.mu.Lock()
	p.at, p.where, p.since, p.failed, p.conn = stepDial, network+" "+address, start, nil, nil
	p.connected = 0
	p.mu.Unlock()
	conn, err := dial(ctx, network, address)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed = err
		return nil, err
	}
	p.connected = max(1, time.Since(start))
	p.at, p.since = next, time.Now()
	if p.uncounted {
		return conn, nil
	}
	p.conn = &countedConn{Conn: conn, of: p}
	return p.conn, nil
}

// hooks returns a ctx with which net and net/http report lookups and handshakes to p.
func (p *progress) hooks(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { p.enter(stepDNS) },
		ConnectStart:      func(string, string) { p.enter(stepDial) },
		TLSHandshakeStart: func() { p.enter(stepTLS) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err == nil { // otherwise the attempt ends in this step
				p.enter(stepHTTP)
			}
		},
	})
}

// answered begins the step after the response headers.
func (p *progress) answered(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.since, p.status = stepBody, time.Now(), status
}

// explain adds what the attempt was waiting for to out, and emits it, if the deadline has ended
// the attempt.
func (p *progress) explain(ctx context.Context, t probe.Tracer, out *probe.Outcome) {
	deadline, ok := ctx.Deadline()
	if !ok || out.Result != probe.Failure || out.Reason == "" || out.Reason == probe.ReasonHTTPStatus || time.Now().Before(deadline) {
		return
	}
	waited(p.wait(), t, out)
}

// waited adds w to out and emits it.
func waited(w *explain.Wait, t probe.Tracer, out *probe.Outcome) {
	t.Emit(w.Event())
	d := explain.Read(out.Details)
	d.Waiting = w.String()
	out.Details = d.String()
}

// wait returns what the attempt is waiting for.
func (p *progress) wait() *explain.Wait {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &explain.Wait{Call: string(p.at), Where: p.where, For: time.Since(p.since)}
	switch p.at {
	case stepDNS:
		w.Saw = []string{"no answer from the resolver"}
	case stepDial:
		p.dialingLocked(w)
	case stepTLS:
		w.Saw = []string{"the handshake is not finished"}
	case stepHTTP2:
		w.Saw = []string{"no HTTP/2 settings from the server"}
	case stepHTTP:
		w.Saw = []string{"no response headers"}
		if p.conn != nil && p.conn.received.Load() > 0 {
			w.Saw[0] = "the response headers are not finished"
		}
	case stepBody:
		w.Saw = []string{"status " + strconv.Itoa(p.status), "the body is not finished"}
	case stepGRPC:
		w.Saw = []string{"no answer to grpc.health.v1.Health/Check"}
	}
	if p.connected > 0 {
		w.Saw = append(w.Saw, "connected after "+explain.Round(p.connected).String())
	}
	if p.conn != nil {
		w.Saw = append(w.Saw, p.conn.saw())
	}
	return w
}

// dialingLocked sets why there is no connection.
func (p *progress) dialingLocked(w *explain.Wait) {
	var timeout interface{ Timeout() bool }
	isTimeout := p.failed == nil || errors.As(p.failed, &timeout) && timeout.Timeout() || errors.Is(p.failed, context.Canceled)
	dns, isDNS := errors.AsType[*net.DNSError](p.failed)
	switch {
	case isDNS && isTimeout:
		w.Call, w.Where, w.Saw = string(stepDNS), dns.Name, []string{"no answer from the resolver"}
	case !isTimeout: // gRPC dials again until the deadline
		w.Saw = []string{p.failed.Error(), "waits before the next dial"}
	case p.unix != "":
		w.Saw = []string{"the socket takes no connection: its listen queue is full"}
	default:
		w.Saw = []string{"no answer to the SYN: packets are dropped, or the listen queue is full"}
	}
}

// countedConn is a connection that counts its bytes.
type countedConn struct {
	net.Conn
	of             *progress
	sent, received atomic.Int64
	last           atomic.Int64 // when bytes were received last, since begun
}

// begun is the start of the times of [countedConn], which so need no allocation.
var begun = time.Now()

// Read implements [net.Conn].
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.received.Add(int64(n))
		c.last.Store(int64(time.Since(begun)))
	}
	return n, err
}

// Write implements [net.Conn].
func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// saw describes what went over the connection.
func (c *countedConn) saw() string {
	text := explain.Bytes(c.sent.Load(), c.received.Load())
	if last := time.Duration(c.last.Load()); last > 0 {
		text += ", the last " + explain.Round(time.Since(begun)-last).String() + " ago"
	}
	return text
}
