package plugintest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Recorder notes what a plugin sees of the world while it probes a real one, for a case
// to replay. It notes dials, the bytes of connections, what is inside of TLS that the
// host makes, requests of HTTP and look-ups. It is safe for concurrent use, but of
// attempts that run at once it mixes up which saw what.
type Recorder struct {
	mu      sync.Mutex
	now     func() time.Time
	servers []string // of DNS, that look-ups go to which name none
	left    int      // bytes that may still be noted of this attempt
	conns   []*tape
	names   map[string][]netip.Addr
	web     []*heard
	begun   []chan struct{} // what was, each closed when it has ended: see settle
	taken   *Case           // the last attempt that was noted
	at      time.Time       // when that was
	said    string          // what the plugin answered
}

// Bytes that are noted; what is beyond is left out, and the file says so.
const (
	maxTape    = 64 << 10 // of a connection
	maxSession = 512 << 10
)

// NewRecorder returns a recorder that has noted nothing.
func NewRecorder() *Recorder {
	r := &Recorder{now: time.Now}
	r.forget()
	return r
}

func (r *Recorder) forget() {
	r.left, r.conns, r.web, r.begun, r.names = maxSession, nil, nil, nil, make(map[string][]netip.Addr)
}

// begins notes that a dial, a handshake or a look-up begins; of a dial with its tape.
func (r *Recorder) begins(t ...*tape) (ended func()) {
	over := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns, r.begun = append(r.conns, t...), append(r.begun, over)
	return func() { close(over) }
}

// settle waits for what has begun. The attempt may be over before: its deadline ends it and
// them at once, and who dials for a request of HTTP, or in the grace of a guest, is not waited
// for.
func (r *Recorder) settle() {
	patience := time.NewTimer(slack)
	defer patience.Stop()
	for i := 0; ; i++ {
		r.mu.Lock()
		rest := r.begun[min(i, len(r.begun)):]
		r.mu.Unlock()
		if len(rest) == 0 {
			return
		}
		select {
		case <-rest[0]:
		case <-patience.C:
			return
		}
	}
}

// Wrap has the recorder look on at all that a host does for its guests: what cfg has is
// wrapped, or the default of what it has not.
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
	r.servers = cfg.DNSServers
	cfg.DialContext = r.dials(cfg.DialContext)
	cfg.Handshake = r.handshakes(cfg.Handshake)
	cfg.LookupIP = r.lookups(cfg.LookupIP)
	if cfg.RoundTrip != nil { // else it is made of dials
		cfg.RoundTrip = r.roundTrips(cfg.RoundTrip)
	}
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func (r *Recorder) dials(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		t := &tape{recorder: r, network: network, addr: addr, begun: r.now(), web: httptrace.ContextClientTrace(ctx) != nil}
		defer r.begins(t)()
		conn, err := dial(ctx, network, addr)
		t.made(conn, err)
		if err != nil {
			return nil, err
		}
		return &taped{Conn: conn, tape: t}, nil
	}
}

type handshakeFunc = func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error)

func (r *Recorder) handshakes(handshake handshakeFunc) handshakeFunc {
	return func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
		raw, ok := conn.(*taped)
		if !ok {
			return handshake(ctx, conn, config)
		}
		defer r.begins()()
		secured, err := handshake(ctx, raw.Conn, config)
		var state tls.ConnectionState
		if s, ok := secured.(interface{ ConnectionState() tls.ConnectionState }); ok && err == nil {
			state = s.ConnectionState()
		}
		raw.tape.shaken(state, err)
		if err != nil {
			return nil, err
		}
		return &securelyTaped{taped{secured, raw.tape}, state}, nil
	}
}

func (r *Recorder) lookups(lookup func(context.Context, string) ([]netip.Addr, error)) func(context.Context, string) ([]netip.Addr, error) {
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		defer r.begins()()
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

func (r *Recorder) roundTrips(trip func(*http.Request, string) (*http.Response, error)) func(*http.Request, string) (*http.Response, error) {
	return func(req *http.Request, addr string) (*http.Response, error) {
		defer r.begins()()
		body, err := bodyOf(req)
		if err != nil {
			return nil, err
		}
		req = withBody(req, body)
		begun := r.now()
		resp, err := trip(req, addr)
		h := &heard{recorder: r}
		h.Match, h.Behaviour = matchOf(req, body, req.URL.String()), behaviourOf(err)
		h.Reply.Latency = rounded(r.now().Sub(begun))
		r.mu.Lock()
		r.web = append(r.web, h)
		r.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if resp.TLS != nil {
			h.TLS = shownBy(*resp.TLS, r.now())
		}
		h.replied(resp)
		h.ReadCloser, resp.Body = resp.Body, h
		if _, ok := h.ReadCloser.(interface{ Ready() bool }); ok {
			resp.Body = heardReadily{h}
		}
		return resp, nil
	}
}

// take reports how many of n more bytes may be noted.
func (r *Recorder) take(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(n, r.left)
	r.left -= n
	return n
}

// Note ends an attempt: what was asked, with a config as JSON, and what was answered. What
// the recorder has seen since the last Note belongs to it. Only the last attempt is kept.
// What req.Redact calls secret is replaced by as many x: in the config, and wherever
// else it is to be found, base64 included.
func (r *Recorder) Note(req probe.Request, config []byte, grants []plugin.Grant, out probe.Outcome, err error) {
	answer := &answer{out: out, err: err}
	c := &Case{
		Timeout: cmp.Or(req.Spec.Timeout, defaultTimeout), Kind: req.Kind, Attempt: max(1, req.Attempt), LastResult: req.LastResult,
		Target: req.Target, PodIP: req.PodIP, Config: config, Grants: grants, Want: Want{Result: answer.result()},
	}
	if req.Pod != nil {
		c.Pod = *req.Pod
	}
	if req.Container != nil {
		c.Container = *req.Container
	}
	r.settle()
	r.mu.Lock()
	conns, web := r.conns, r.web
	c.Names = r.names
	r.forget()
	r.mu.Unlock()
	for _, h := range web {
		c.Web = append(c.Web, h.exchange())
	}
	for _, t := range conns {
		t.describe(c)
	}
	hide := newHider(config, req.Redacted)
	hide.of(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken, r.at, r.said = c, r.now(), hide.text(answer.message())
}

// names of a recording's addresses: that of the only one that has it alone.
func nameOf(c *Case, addr netip.Addr) string {
	for _, host := range slices.Sorted(maps.Keys(c.Names)) {
		if addrs := c.Names[host]; len(addrs) == 1 && addrs[0] == addr {
			return host
		}
	}
	return addr.String()
}

// behaviourOf is what a peer does that a dial or a hop fails with err at.
func behaviourOf(err error) Behaviour {
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil:
		return ""
	case isReset(err):
		return ResetNow
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return Timeout
	default:
		return Refuse
	}
}

// rounded is a time that is fit for people.
func rounded(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(100 * time.Microsecond)
	default:
		return d.Round(10 * time.Microsecond)
	}
}

// Write writes the attempt that was noted last to a file, for a case to replay.
func (r *Recorder) Write(path string) error {
	r.mu.Lock()
	c, at, said := r.taken, r.at, r.said
	r.mu.Unlock()
	if c == nil {
		return errors.New("no attempt was recorded")
	}
	data, err := encodeSession(c, at, said)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if _, err := parseSession(path, data); err != nil {
		return fmt.Errorf("what was recorded can not be read again: %w", err)
	}
	return writeFile(path, data)
}
