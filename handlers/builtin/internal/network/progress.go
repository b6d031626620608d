package network

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// Step is a step of an attempt.
type Step string

// The steps of the handlers.
const (
	StepDNS   Step = "dns"
	StepDial  Step = "dial"
	StepTLS   Step = "tls"
	StepHTTP2 Step = "http2" // the wait for the settings of a gRPC connection
	StepHTTP  Step = "http"
	StepBody  Step = "body"
	StepGRPC  Step = "grpc"
	StepDone  Step = "" // no step is left
)

// Progress tracks the current step of an attempt. At the deadline it explains what the attempt was
// waiting for. It is safe for concurrent use, because connections are made on other goroutines.
type Progress struct {
	Unix      string // the socket to which all connections go; read-only, like the next field
	Uncounted bool   // connections do not count their bytes
	Traced    bool   // phases are recorded for [Progress.Emit]
	Redials   bool   // the attempt continues after a failed dial or connection

	mu        sync.Mutex
	at        Step
	where     string   // network and address of the last dial; "" means to
	to        Endpoint // endpoint of the last dial
	since     time.Time
	connected time.Duration // how long the last dial took
	reused    bool          // the connection comes from an earlier attempt
	conn      *countedConn  // connection of the last dial; nil if it failed or is not counted
	failed    error         // error of the last dial
	broken    string        // why the connection of the last dial cannot be used; "" if it can
	before    *explain.Wait // the wait on the previous connection, if its server did not get ready
	first     countedConn   // saves an allocation
	responds  atomic.Bool   // the response has begun
	secure    bool          // the last connection uses TLS, so its bytes are encrypted
	status    int           // status of the response, once its headers have arrived
	version   uint16        // TLS version of the last handshake
	protocol  string        // negotiated protocol of the last handshake
	phases    phases
	shown     []certificates.Shown  // certificates of the handshakes
	one       [1]certificates.Shown // saves an allocation
	reported  bool                  // shown must not change
}

// FailedDial returns the progress of an attempt whose dial began at start and failed with err.
func FailedDial(at Endpoint, start time.Time, err error) *Progress {
	return &Progress{Unix: at.Unix, at: StepDial, since: start, to: at, failed: err}
}

// Of returns the progress that counts the bytes of conn, or nil if there is none.
func Of(conn net.Conn) *Progress {
	if counted, ok := conn.(*countedConn); ok {
		return counted.of
	}
	return nil
}

// Enter begins a step. It does nothing if the step is the current one of a gRPC call.
func (p *Progress) Enter(at Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at == StepGRPC && p.at == at {
		return
	}
	p.enterLocked(at, time.Now())
}

func (p *Progress) enterLocked(at Step, now time.Time) {
	p.at, p.since, p.broken = at, now, ""
	switch at {
	case StepTLS:
		p.secure = true
	case StepHTTP:
		p.status = 0
		p.responds.Store(false)
	}
	p.phaseLocked(at, now)
}

// Broken records why the connection of the last dial cannot be used, if the server has not got ready. The
// attempt then waits and dials again.
func (p *Progress) Broken(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == StepHTTP2 || p.at == StepTLS {
		p.broken = cmp.Or(p.broken, why)
	}
}

// Reason describes err, the error of a connection, for people.
func Reason(err error) string {
	op, isOp := errors.AsType[*net.OpError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case isDNS && dns.IsTimeout:
		return noResolver
	case isDNS:
		return dns.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server has ended the connection"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the server has reset the connection"
	case isOp && op.Op == "dial" && op.Err != nil: // the address is known
		return op.Err.Error()
	default:
		return err.Error()
	}
}

// noResolver is the text for a look-up that timed out.
const noResolver = "no answer from the resolver"

// isEnd reports whether the end of the attempt caused err.
func isEnd(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) ||
		err != nil && strings.HasSuffix(err.Error(), "operation was canceled") // a cancelled dial
}

// Dial makes a connection that counts its bytes. next is the step after the dial.
func (p *Progress) Dial(ctx context.Context, dial DialFunc, network, address string, next Step) (net.Conn, error) {
	if p.Unix != "" {
		network, address = "unix", p.Unix
	}
	start := p.beginDial(network+" "+address, Endpoint{})
	conn, err := dial(ctx, network, address)
	return p.endDial(start, conn, err, next)
}

// Connect makes a connection to at that counts its bytes. next is the step after the dial.
func (p *Progress) Connect(ctx context.Context, c *Connector, at Endpoint, next Step) (net.Conn, error) {
	start := p.beginDial("", at)
	conn, err := c.Connect(p.HooksAt(ctx, at), at)
	return p.endDial(start, conn, err, next)
}

// beginDial begins the step of a dial.
func (p *Progress) beginDial(where string, to Endpoint) (start time.Time) {
	start = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saveDialLocked()
	p.at, p.where, p.to, p.since, p.failed, p.broken, p.conn, p.connected, p.reused, p.secure = StepDial, where, to, start, nil, "", nil, 0, false, false
	p.phaseLocked(StepDial, start)
	if f := p.phases.current(""); f != nil && f.name == StepDial.phase() {
		_, f.detail, _ = strings.Cut(where, " ")
	}
	return start
}

// saveDialLocked saves the state of the previous dial, if there was one, before the next dial replaces it.
func (p *Progress) saveDialLocked() {
	if p.at == StepHTTP2 || p.at == StepTLS { // gRPC dials again after it has waited for too long
		p.before = p.waitLocked()
		p.before.Saw = append(p.before.Saw, "then dialled again")
	}
	if p.Traced && !p.phases.over && p.to != (Endpoint{}) {
		_, address := p.to.Dialed()
		p.phases.nameConnects(address)
	}
}

// endDial ends the step of a dial.
func (p *Progress) endDial(start time.Time, conn net.Conn, err error, next Step) (net.Conn, error) {
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

// Reuse begins a step on a connection to at that an earlier attempt has made. secure says whether it uses
// TLS, and shown has its certificates. Reuse returns a connection over conn that counts its bytes.
func (p *Progress) Reuse(conn net.Conn, at Endpoint, shown certificates.Shown, secure bool, next Step) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.showLocked(shown)
	p.to, p.reused, p.secure = at, true, secure
	p.enterLocked(next, time.Now())
	return p.countLocked(conn)
}

// countLocked returns a connection over conn that counts its bytes.
func (p *Progress) countLocked(conn net.Conn) net.Conn {
	p.conn = &p.first
	if p.conn.of != nil {
		p.conn = new(countedConn)
	}
	p.conn.Conn, p.conn.of = conn, p
	return p.conn
}

// Hooks returns a context with which net and net/http report look-ups and handshakes to p.
func (p *Progress) Hooks(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { p.hook(StepDNS, "") },
		DNSDone:           p.resolved,
		ConnectStart:      func(_, address string) { p.hook(StepDial, address) },
		ConnectDone:       func(_, address string, err error) { p.hooked(StepDial, address, err) },
		TLSHandshakeStart: func() { p.Enter(StepTLS) },
		TLSHandshakeDone: func(s tls.ConnectionState, err error) {
			p.Handshook(&s, err)
			if err == nil { // after an error the attempt ends in this step
				p.Enter(StepHTTP)
			}
		},
		GotFirstResponseByte: p.FirstByte,
	})
}

// HooksAt is [Progress.Hooks] for the dial of at. If phases are not recorded, or if the dial has only one
// phase, it returns ctx.
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

// Explain adds what the attempt was waiting for to out, and emits it to t. It does nothing unless the
// deadline has ended the attempt.
func (p *Progress) Explain(ctx context.Context, t probe.Tracer, out *probe.Outcome) {
	deadline, ok := ctx.Deadline()
	if !ok || out.Result != probe.Failure || out.Reason == probe.ReasonHTTPStatus || time.Now().Before(deadline) {
		return
	}
	w := p.wait()
	if w == nil || out.Reason == "" && !(p.Redials && w.Call == string(StepDial)) { // the target answered; gRPC also dials until then without a route
		return
	}
	w.Report(t, out)
}

// wait describes what the attempt is waiting for. It returns nil before the first step.
func (p *Progress) wait() *explain.Wait {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == StepDone {
		return nil
	}
	if b := p.before; b != nil && p.at == StepDial && p.failed == nil && time.Since(p.since) < b.For {
		return b // the new dial has only just begun
	}
	w := p.waitLocked()
	if p.Redials && (p.broken != "" || p.at == StepDial && p.failed != nil && !isEnd(p.failed)) {
		w.Saw = slices.Insert(w.Saw, 1, "waits before the next dial")
	}
	return w
}

func (p *Progress) waitLocked() *explain.Wait {
	w := &explain.Wait{Call: string(p.at), Where: p.where, For: time.Since(p.since)}
	if w.Where == "" && p.to != (Endpoint{}) {
		network, address := p.to.Dialed()
		w.Where = network + " " + address
	}
	switch p.at {
	case StepDNS:
		_, address, _ := strings.Cut(w.Where, " ")
		if host, _, err := net.SplitHostPort(address); err == nil {
			w.Where = host
		}
		w.Saw = []string{noResolver}
	case StepDial:
		p.dialingLocked(w)
	case StepTLS:
		w.Saw = []string{"the handshake is not finished"}
		if p.broken != "" {
			w.Saw[0] = "the handshake has failed: " + p.broken
		}
	case StepHTTP2:
		w.Saw = []string{"no HTTP/2 settings from the server"}
		if p.broken != "" {
			w.Saw[0] += ": " + p.broken
		}
	case StepHTTP:
		w.Saw = []string{p.respondingLocked()}
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
	if p.conn != nil && (p.at != StepTLS || p.conn.sent.Load() > 0) { // a busy host may not have started the handshake
		w.Saw = append(w.Saw, p.conn.saw())
	}
	return w
}

// respondingLocked describes the progress of request and response.
func (p *Progress) respondingLocked() string {
	switch {
	case p.responds.Load(), !p.secure && p.conn != nil && p.conn.received.Load() > 0: // net/http does not always report it
		return "the response headers are not finished"
	case p.conn != nil && p.conn.unsent.Load():
		return "the request is not sent: the server does not read all of it"
	default:
		return "no response headers"
	}
}

// dialingLocked describes why there is no connection.
func (p *Progress) dialingLocked(w *explain.Wait) {
	isTimeout := p.failed == nil || isEnd(p.failed)
	dns, isDNS := errors.AsType[*net.DNSError](p.failed)
	switch {
	case isDNS && isTimeout:
		w.Call, w.Where, w.Saw = string(StepDNS), dns.Name, []string{noResolver}
	case !isTimeout: // gRPC retries until the deadline
		w.Saw = []string{Reason(p.failed)}
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
	last           atomic.Int64 // when bytes were last received, in nanoseconds since epoch
	unsent         atomic.Bool  // a write has not sent all of its bytes
}

// epoch is the zero of the times that are stored as integers, which saves allocations.
var epoch = time.Now()

// Read implements [net.Conn].
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.received.Add(int64(n))
		c.last.Store(int64(time.Since(epoch)))
	}
	return n, err
}

// Write implements [net.Conn].
func (c *countedConn) Write(b []byte) (int, error) {
	c.unsent.Store(true)
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	c.unsent.Store(n < len(b))
	return n, err
}

// saw describes the bytes sent and received over the connection.
func (c *countedConn) saw() string {
	text := explain.Bytes(c.sent.Load(), c.received.Load())
	if last := time.Duration(c.last.Load()); last > 0 {
		text += ", the last " + explain.Round(time.Since(epoch)-last).String() + " ago"
	}
	return text
}
