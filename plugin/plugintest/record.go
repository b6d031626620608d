package plugintest

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/capture"
	"github.com/daeace23/prober/plugin/plugintest/internal/loopback"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
	"github.com/daeace23/prober/probe"
)

// Recorder records a plugin's network traffic with a real target, for a case to replay: dials, the
// bytes of connections, the plain text of the host's TLS, HTTP requests, look-ups and echo requests.
// It is safe for concurrent use, but it does not separate attempts that run concurrently.
type Recorder struct {
	mu      sync.Mutex
	now     func() time.Time
	servers []string // DNS servers for look-ups that name none
	seed    uint64   // of the guest's random bytes
	random  seededRand

	// The current attempt.
	begunAt time.Time // zero: Begin was not called
	budget  *capture.Budget
	conns   []*capture.Conn
	echoes  []capture.Echo
	names   map[string][]netip.Addr
	begun   []chan struct{} // dials, handshakes and look-ups; each is closed when it ends

	// The last attempt.
	taken   *Case
	at      time.Time
	message string
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	r := &Recorder{now: time.Now, seed: rand.Uint64()}
	r.random.seed(r.seed)
	r.forget()
	return r
}

func (r *Recorder) forget() {
	r.budget, r.conns, r.echoes, r.begun, r.names = capture.NewBudget(), nil, nil, nil, make(map[string][]netip.Addr)
	r.begunAt = time.Time{}
}

// begin records the start of an operation. The caller must call ended at its end.
func (r *Recorder) begin() (ended func()) {
	over := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = append(r.begun, over)
	return func() { close(over) }
}

// settle waits until every operation has ended. The deadline of an attempt ends the attempt and,
// for example, its dial concurrently.
func (r *Recorder) settle() {
	timeout := time.NewTimer(loopback.Slack)
	defer timeout.Stop()
	for i := 0; ; i++ {
		r.mu.Lock()
		rest := r.begun[min(i, len(r.begun)):]
		r.mu.Unlock()
		if len(rest) == 0 {
			return
		}
		select {
		case <-rest[0]:
		case <-timeout.C:
			return
		}
	}
}

// Begin starts an attempt. The guest gets random bytes from the start of a seed. The session has this seed
// and the present time, so that a guest in a replay generates the same bytes. Without Begin it has neither.
func (r *Recorder) Begin() {
	r.random.seed(r.seed)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begunAt = r.now().UTC()
}

// Wrap changes cfg so that r records the dials, handshakes, look-ups and echo requests of the host, and
// gives guests their random bytes: see [Recorder.Begin]. r does not record requests that cfg.RoundTrip answers without a dial.
func (r *Recorder) Wrap(cfg *wasm.Config) {
	if cfg.Clock != nil {
		r.now = cfg.Clock.Now
	}
	if cfg.DialContext == nil {
		cfg.DialContext = new(net.Dialer).DialContext
	}
	if cfg.Handshake == nil {
		cfg.Handshake = func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
			secured := tls.Client(conn, config)
			return secured, secured.HandshakeContext(ctx)
		}
	}
	if cfg.LookupIP == nil {
		cfg.LookupIP = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if cfg.Echo == nil {
		cfg.Echo = wasm.Echo
	}
	cfg.Rand = &r.random
	r.servers = cfg.DNSServers
	cfg.Echo = r.replies(cfg.Echo)
	cfg.DialContext = r.dials(cfg.DialContext)
	cfg.Handshake = r.handshakes(cfg.Handshake)
	cfg.LookupIP = r.lookups(cfg.LookupIP)
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func (r *Recorder) dials(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		isHTTP := httptrace.ContextClientTrace(ctx) != nil
		r.mu.Lock()
		c := capture.Start(network, addr, isHTTP, r.budget, r.now)
		r.conns = append(r.conns, c)
		r.mu.Unlock()
		defer r.begin()()
		conn, err := dial(ctx, network, addr)
		return c.Dialled(conn, err)
	}
}

func (r *Recorder) handshakes(handshake capture.HandshakeFunc) capture.HandshakeFunc {
	return func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
		defer r.begin()()
		return capture.Secure(ctx, conn, config, handshake)
	}
}

type echoFunc = func(ctx context.Context, req wasm.EchoRequest) (wasm.EchoReply, error)

func (r *Recorder) replies(echo echoFunc) echoFunc {
	return func(ctx context.Context, req wasm.EchoRequest) (wasm.EchoReply, error) {
		defer r.begin()()
		reply, err := echo(ctx, req)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.echoes = append(r.echoes, capture.Echo{Addr: req.Addr, HopLimit: reply.HopLimit, Latency: reply.RTT, Err: err})
		return reply, err
	}
}

type lookupFunc = func(ctx context.Context, host string) ([]netip.Addr, error)

func (r *Recorder) lookups(lookup lookupFunc) lookupFunc {
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		defer r.begin()()
		addrs, err := lookup(ctx, host)
		known, missing := errors.AsType[*net.DNSError](err)
		if err == nil || missing && known.IsNotFound {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.names[host] = nil
			for _, addr := range addrs {
				r.names[host] = append(r.names[host], addr.Unmap())
			}
		}
		return addrs, err
	}
}

// Note ends an attempt with its request and answer. config is JSON. All operations since the last
// Note belong to the attempt. The recorder keeps the last attempt only. Strings that req.Redact
// changes are secret: each of their characters becomes an x, in the config and in the recorded
// bytes, also within base64.
func (r *Recorder) Note(req probe.Request, config []byte, grants []plugin.Grant, out probe.Outcome, err error) {
	answer := &testfile.Answer{Outcome: out, Err: err}
	r.settle()
	r.mu.Lock()
	var conns []*capture.Summary
	for _, c := range r.conns {
		conns = append(conns, c.Summary())
	}
	seen := capture.Attempt{Names: r.names, DNSServers: r.servers, Echoes: r.echoes}
	if !r.begunAt.IsZero() {
		seen.Seed, seen.Time, seen.Random = new(r.seed), r.begunAt, r.random.read()
	}
	c := testfile.Recorded(req, config, grants, seen, conns)
	r.forget()
	r.mu.Unlock()
	c.Want.Result = answer.Result()
	text := c.Redact(req.Redacted)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken, r.at, r.message = c, r.now(), text(answer.Message())
}

// Write writes the last attempt to a file, for a case to replay.
func (r *Recorder) Write(path string) error {
	r.mu.Lock()
	c, at, message := r.taken, r.at, r.message
	r.mu.Unlock()
	if c == nil {
		return errors.New("no attempt was recorded")
	}
	return testfile.WriteSession(path, c, at, message)
}
