package plugintest

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/probe"
)

// Native is the world of one case for a plugin that runs as a part of the test program,
// without a sandbox: with coverage, and in a debugger. Time is the program's own, which
// passes at once in a bubble of testing/synctest; make it there. Nothing is denied: see
// [Case.NeedsSandbox].
type Native struct {
	// KV is what the probe keeps: at first that of the case, and what the plugin makes of
	// it when Judge is called.
	KV map[string][]byte

	c   *Case
	net *network
	got answer
}

// NewNative returns the world of a case, for one attempt.
func NewNative(c *Case) *Native {
	n := &Native{c: c, KV: make(map[string][]byte)}
	maps.Copy(n.KV, c.KV)
	n.net = newNetwork(c, &ownTime{}, rand.New(rand.NewPCG(1, 0)))
	n.net.native = true
	return n
}

// NeedsSandbox says what of the case only a guest can show, or "": denials, and how the
// sandbox ends a guest.
func (c *Case) NeedsSandbox() string {
	switch c.Want.Result {
	case "error(trap)", "error(memory)", "error(instantiate)", "error(protocol)":
		return c.Want.Result
	}
	if len(c.Want.Denied) > 0 {
		return "denials"
	}
	return ""
}

// ConfigError marks an error as one of the plugin's about its config, for [Native.Judge].
func ConfigError(err error) error { return &probe.Error{Reason: reasonConfig, Err: err} }

// reasonConfig stands where a file says error(config).
const reasonConfig probe.Reason = "config"

// ConfigJSON returns the config of the case as a JSON object, without the defaults of the
// manifest.
func (c *Case) ConfigJSON() []byte {
	if c.Config == nil {
		return []byte("{}")
	}
	return c.Config
}

// Request returns what the plugin is asked.
func (n *Native) Request() probe.Request { return n.got.request(n.c) }

// DNSServers returns whom to ask, over [Native.DialContext], in a look-up that names no
// server.
func (n *Native) DNSServers() []string { return []string{dnsServer} }

// LookupIP returns the addresses of a name.
func (n *Native) LookupIP(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	return n.net.LookupIP(ctx, host)
}

// DialContext connects to a peer of the case. network is "tcp", "udp" or "unix"; TLS is
// made by [Native.Handshake].
func (n *Native) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if network == "unix" {
		return n.net.DialContext(ctx, network, addr)
	}
	network = strings.TrimRight(network, "46")
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s %s: %w", network, addr, err)
	}
	addrs, err := n.LookupIP(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("dial %s %s: %w", network, addr, err)
	}
	var conn net.Conn
	for i, addr := range addrs {
		if conn, err = n.dialOne(ctx, len(addrs)-i, network, net.JoinHostPort(addr.String(), port)); err == nil {
			break
		}
	}
	return conn, err
}

// dialOne takes a share of the time that is left.
func (n *Native) dialOne(ctx context.Context, shares int, network, addr string) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(shares))
		defer cancel()
	}
	return n.net.DialContext(ctx, network, addr)
}

// Handshake plays the TLS of a connection that [Native.DialContext] made. What it
// returns has a ConnectionState.
func (n *Native) Handshake(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
	return n.net.handshake(ctx, conn, config)
}

// RoundTrip implements [http.RoundTripper] with the exchanges of the case. It follows no
// redirects, as none does.
func (n *Native) RoundTrip(req *http.Request) (*http.Response, error) {
	addrs, err := n.LookupIP(req.Context(), req.URL.Hostname())
	if err != nil {
		return nil, err
	}
	port := cmp.Or(req.URL.Port(), map[string]string{"http": "80", "https": "443"}[req.URL.Scheme])
	return n.net.RoundTrip(req, net.JoinHostPort(addrs[0].String(), port))
}

var _ http.RoundTripper = (*Native)(nil)

// Judge says what of the attempt is not as the case wants it; nil if all is well. err is
// the plugin's error as a handler returns it, or a [ConfigError]; virtual is the time
// that the attempt took. Memory and denials are not looked at.
func (n *Native) Judge(out probe.Outcome, err error, virtual time.Duration) []string {
	want := *n.c
	want.Want.Memory, want.Want.Denied = nil, nil
	got := n.got
	got.out, got.err, got.virtual, got.kept = out, err, virtual, n.KV
	if got.config = probe.ReasonOf(err) == reasonConfig; !got.config {
		got.faults = n.net.ended()
	}
	r := Result{Name: n.c.Name, c: &want, got: &got}
	r.judge()
	if r.Diff == "" {
		return r.Failures
	}
	return append(r.Failures, r.Diff)
}

// ownTime is the time of the program.
type ownTime struct {
	mu     sync.Mutex
	events []event
}

var _ timeline = (*ownTime)(nil)

// Now implements [timeline].
func (*ownTime) Now() time.Time { return time.Now() }

// Wait implements [timeline].
func (*ownTime) Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	var over <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-wake:
		return true
	case <-ctx.Done():
	case <-over:
	}
	return false
}

// at implements [timeline]. Timers that are due together fire in any order: what is
// called is what was to come first.
func (o *ownTime) at(t time.Time, do func()) {
	o.mu.Lock()
	o.events = inserted(o.events, event{t, do})
	o.mu.Unlock()
	if wait := time.Until(t); wait > 0 {
		time.AfterFunc(wait, o.happen)
		return
	}
	o.happen()
}

// happen calls what is due.
func (o *ownTime) happen() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for now := time.Now(); len(o.events) > 0 && !o.events[0].at.After(now); {
		next := o.events[0]
		o.events = o.events[1:]
		next.do()
	}
}
