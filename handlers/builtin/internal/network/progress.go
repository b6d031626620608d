package network

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// Step is a part of an attempt.
type Step string

// The steps of the handlers.
const (
	StepDNS   Step = "dns"
	StepDial  Step = "dial"
	StepTLS   Step = "tls"
	StepHTTP2 Step = "http2" // the settings of a gRPC connection
	StepHTTP  Step = "http"
	StepBody  Step = "body"
	StepGRPC  Step = "grpc"
	StepDone  Step = "" // none is left
)

// Progress tracks the current step of an attempt, to explain at the deadline what the attempt was
// waiting for. It is safe for concurrent use, since connections are made on other goroutines.
type Progress struct {
	Unix      string // the socket that all connections go to; read-only, as is the next one
	Uncounted bool   // connections do not count their bytes
	Traced    bool   // phases are noted, for [Progress.Emit]

	mu        sync.Mutex
	at        Step
	where     string   // of the last dial; "" means to
	to        Endpoint // of the last dial
	since     time.Time
	connected time.Duration // how long the last dial took
	reused    bool          // the connection is of an earlier attempt
	conn      *countedConn  // of the last dial; nil if it failed or is not counted
	failed    error         // of the last dial
	before    *explain.Wait // of the connection before the last dial, if its server did not get ready
	first     countedConn   // spares an allocation
	status    int           // of the response
	version   uint16        // of the last TLS handshake
	protocol  string        // on which it has agreed
	phases    phases
}

// FailedDial returns the progress of an attempt that ended with err, the error of its dial, which
// began at start.
func FailedDial(at Endpoint, start time.Time, err error) *Progress {
	return &Progress{Unix: at.Unix, at: StepDial, since: start, to: at, failed: err}
}

// Of returns the progress that counts the bytes of conn, or nil.
func Of(conn net.Conn) *Progress {
	if counted, ok := conn.(*countedConn); ok {
		return counted.of
	}
	return nil
}

// Enter begins a step.
func (p *Progress) Enter(at Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enterLocked(at, time.Now())
}

func (p *Progress) enterLocked(at Step, now time.Time) {
	p.at, p.since = at, now
	p.phaseLocked(at, now)
}

// Dial makes a connection that counts its bytes. next is the step after it.
func (p *Progress) Dial(ctx context.Context, dial DialFunc, network, address string, next Step) (net.Conn, error) {
	if p.Unix != "" {
		network, address = "unix", p.Unix
	}
	start := p.dials(network+" "+address, Endpoint{})
	conn, err := dial(ctx, network, address)
	return p.dialled(start, conn, err, next)
}

// Connect makes a connection to at that counts its bytes. next is the step after it.
func (p *Progress) Connect(ctx context.Context, c *Connector, at Endpoint, next Step) (net.Conn, error) {
	start := p.dials("", at)
	conn, err := c.Connect(p.HooksAt(ctx, at), at)
	return p.dialled(start, conn, err, next)
}

// dials begins the step of a dial.
func (p *Progress) dials(where string, to Endpoint) (start time.Time) {
	start = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialsAgainLocked()
	p.at, p.where, p.to, p.since, p.failed, p.conn, p.connected, p.reused = StepDial, where, to, start, nil, nil, 0, false
	p.phaseLocked(StepDial, start)
	if f := p.phases.current(""); f != nil && f.name == StepDial.phase() {
		_, f.detail, _ = strings.Cut(where, " ")
	}
	return start
}

// dialsAgainLocked keeps what the next dial replaces, if there was one before.
func (p *Progress) dialsAgainLocked() {
	if p.at == StepHTTP2 || p.at == StepTLS { // gRPC dials again when it has waited for too long
		p.before = p.waitLocked()
		p.before.Saw = append(p.before.Saw, "then dialled again")
	}
	if p.Traced && !p.phases.over && p.to != (Endpoint{}) {
		_, address := p.to.Dialed()
		p.phases.nameConnects(address)
	}
}

// dialled ends the step of a dial.
func (p *Progress) dialled(start time.Time, conn net.Conn, err error, next Step) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed = err
		p.failedLocked(StepDial, "", err)
		return nil, err
	}
	now := time.Now()
	p.connected = max(1, now.Sub(start))
	p.enterLocked(next, now)
	if p.Uncounted {
		return conn, nil
	}
	return p.countLocked(conn), nil
}

// Reuse begins a step on a connection to at that an earlier attempt has made. It returns conn, which
// counts its bytes.
func (p *Progress) Reuse(conn net.Conn, at Endpoint, next Step) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to, p.reused = at, true
	p.enterLocked(next, time.Now())
	return p.countLocked(conn)
}

// countLocked returns conn, which counts its bytes.
func (p *Progress) countLocked(conn net.Conn) net.Conn {
	p.conn = &p.first
	if p.conn.of != nil {
		p.conn = new(countedConn)
	}
	p.conn.Conn, p.conn.of = conn, p
	return p.conn
}

// Hooks returns a ctx with which net and net/http report lookups and handshakes to p.
func (p *Progress) Hooks(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { p.hook(StepDNS, "") },
		DNSDone:           p.resolved,
		ConnectStart:      func(_, address string) { p.hook(StepDial, address) },
		ConnectDone:       func(_, address string, err error) { p.hooked(StepDial, address, err) },
		TLSHandshakeStart: func() { p.Enter(StepTLS) },
		TLSHandshakeDone: func(s tls.ConnectionState, err error) {
			p.Handshook(&s, err)
			if err == nil { // otherwise the attempt ends in this step
				p.Enter(StepHTTP)
			}
		},
		GotFirstResponseByte: p.FirstByte,
	})
}

// HooksAt is [Progress.Hooks] for the dial of at, if its phases are noted and there may be more than
// one. Otherwise it returns ctx.
func (p *Progress) HooksAt(ctx context.Context, at Endpoint) context.Context {
	if !p.Traced || at.Unix != "" || at.literal().IsValid() {
		return ctx
	}
	return p.Hooks(ctx)
}

// Answered begins the step after the response headers.
func (p *Progress) Answered(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
	now := time.Now()
	if f := p.phases.current(""); f != nil && f.name == StepBody.phase() {
		p.at, p.since = StepBody, now
		return
	}
	p.enterLocked(StepBody, now)
}

// Explain adds what the attempt was waiting for to out, and emits it, if the deadline has ended
// the attempt.
func (p *Progress) Explain(ctx context.Context, t probe.Tracer, out *probe.Outcome) {
	deadline, ok := ctx.Deadline()
	if !ok || out.Result != probe.Failure || out.Reason == "" || out.Reason == probe.ReasonHTTPStatus || time.Now().Before(deadline) {
		return
	}
	if w := p.wait(); w != nil {
		w.Report(t, out)
	}
}

// wait returns what the attempt is waiting for; nil before its first step.
func (p *Progress) wait() *explain.Wait {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == StepDone {
		return nil
	}
	if b := p.before; b != nil && p.at == StepDial && p.failed == nil && time.Since(p.since) < b.For {
		return b // a dial that has only begun is not what the attempt was waiting for
	}
	return p.waitLocked()
}

func (p *Progress) waitLocked() *explain.Wait {
	w := &explain.Wait{Call: string(p.at), Where: p.where, For: time.Since(p.since)}
	if w.Where == "" && p.to != (Endpoint{}) {
		network, address := p.to.Dialed()
		w.Where = network + " " + address
	}
	switch p.at {
	case StepDNS:
		w.Saw = []string{"no answer from the resolver"}
	case StepDial:
		p.dialingLocked(w)
	case StepTLS:
		w.Saw = []string{"the handshake is not finished"}
	case StepHTTP2:
		w.Saw = []string{"no HTTP/2 settings from the server"}
	case StepHTTP:
		w.Saw = []string{"no response headers"}
		if p.conn != nil && p.conn.received.Load() > 0 {
			w.Saw[0] = "the response headers are not finished"
		}
	case StepBody:
		w.Saw = []string{"status " + strconv.Itoa(p.status), "the body is not finished"}
	case StepGRPC:
		w.Saw = []string{"no answer to grpc.health.v1.Health/Check"}
	}
	if p.connected > 0 {
		w.Saw = append(w.Saw, "connected after "+explain.Round(p.connected).String())
	}
	if p.reused {
		w.Saw = append(w.Saw, "on the connection of an earlier attempt")
	}
	if p.conn != nil {
		w.Saw = append(w.Saw, p.conn.saw())
	}
	return w
}

// dialingLocked sets why there is no connection.
func (p *Progress) dialingLocked(w *explain.Wait) {
	var timeout interface{ Timeout() bool }
	isTimeout := p.failed == nil || errors.As(p.failed, &timeout) && timeout.Timeout() || errors.Is(p.failed, context.Canceled)
	dns, isDNS := errors.AsType[*net.DNSError](p.failed)
	switch {
	case isDNS && isTimeout:
		w.Call, w.Where, w.Saw = string(StepDNS), dns.Name, []string{"no answer from the resolver"}
	case !isTimeout: // gRPC dials again until the deadline
		w.Saw = []string{p.failed.Error(), "waits before the next dial"}
	case p.Unix != "":
		w.Saw = []string{"the socket takes no connection: its listen queue is full"}
	default:
		w.Saw = []string{"no answer to the SYN: packets are dropped, or the listen queue is full"}
	}
}

// countedConn is a connection that counts its bytes.
type countedConn struct {
	net.Conn
	of             *Progress
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
