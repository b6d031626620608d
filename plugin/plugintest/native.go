package plugintest

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/web"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
	"github.com/daeace23/prober/probe"
)

// Native is the network of one case for a plugin that runs within the test program, without a
// sandbox, so that coverage and debuggers work. It uses package time: create it in a bubble of
// testing/synctest, where time passes at once. It denies nothing, see Case.NeedsSandbox.
type Native struct {
	// KV is the probe's key-value store, initially a copy of the case's. The plugin may change it
	// until Check is called.
	KV map[string][]byte

	c   *Case
	net *peer.Network
	got testfile.Answer
}

// NewNative returns the network of a case for one attempt.
func NewNative(c *Case) *Native {
	n := &Native{c: c, KV: make(map[string][]byte)}
	maps.Copy(n.KV, c.KV)
	n.net = peer.New(c.Setup(), &clock.Real{}, 1)
	return n
}

// ConfigError marks err as the plugin's refusal of its config, for [Native.Check].
func ConfigError(err error) error { return &probe.Error{Reason: testfile.ReasonConfig, Err: err} }

// Request returns the request of the case.
func (n *Native) Request() probe.Request { return tracedRequest(n.c, &n.got) }

// DNSServers returns the servers for a look-up that names none. They are dialled with
// [Native.DialContext].
func (n *Native) DNSServers() []string { return []string{peer.DNSServer} }

// LookupIP returns the addresses of a name.
func (n *Native) LookupIP(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	return n.net.LookupIP(ctx, host)
}

// DialContext connects to a peer of the case. network is "tcp", "udp" or "unix", or "tcp4" and the like. Start TLS with
// [Native.Handshake].
func (n *Native) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if network == "unix" {
		return n.net.DialContext(ctx, network, addr)
	}
	network, family := strings.TrimRight(network, "46"), network
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s %s: %w", network, addr, err)
	}
	addrs, err := n.LookupIP(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("dial %s %s: %w", network, addr, err)
	}
	if family != network {
		addrs = slices.DeleteFunc(slices.Clone(addrs), func(ip netip.Addr) bool { return ip.Is4() != strings.HasSuffix(family, "4") })
	}
	if len(addrs) == 0 {
		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.AddrError{Err: "no suitable address", Addr: host}}
	}
	var conn net.Conn
	for i, addr := range addrs {
		if conn, err = n.dialOne(ctx, len(addrs)-i, network, net.JoinHostPort(addr.String(), port)); err == nil {
			break
		}
	}
	return conn, err
}

// dialOne dials addr. It may take the remaining time divided by shares.
func (n *Native) dialOne(ctx context.Context, shares int, network, addr string) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(shares))
		defer cancel()
	}
	return n.net.DialContext(ctx, network, addr)
}

// Handshake simulates the TLS handshake of a connection from [Native.DialContext]. The result has a
// method ConnectionState.
func (n *Native) Handshake(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
	return n.net.Handshake(ctx, conn, config)
}

// RoundTrip implements [http.RoundTripper] with the exchanges of the case. It follows no
// redirects.
func (n *Native) RoundTrip(req *http.Request) (*http.Response, error) {
	addrs, err := n.LookupIP(req.Context(), req.URL.Hostname())
	if err != nil {
		return nil, err
	}
	return n.net.RoundTrip(req, net.JoinHostPort(addrs[0].String(), web.Port(req.URL)))
}

var _ http.RoundTripper = (*Native)(nil)

// Echo answers an ICMP echo request with the replies of the case.
func (n *Native) Echo(ctx context.Context, r wasm.EchoRequest) (wasm.EchoReply, error) {
	return n.net.Echo(ctx, r)
}

// Check compares the attempt with the case, and returns its failures, nil for none. err is the
// plugin's error, as a handler returns it, or a [ConfigError]. virtual is the duration of the
// attempt. Check does not compare memory and denials.
func (n *Native) Check(out probe.Outcome, err error, virtual time.Duration) []string {
	want := *n.c
	want.Want.Memory, want.Want.Denied = nil, nil
	got := n.got
	got.Outcome, got.Err, got.Virtual, got.Kept = out, err, virtual, n.KV
	if got.BadConfig = probe.ReasonOf(err) == testfile.ReasonConfig; !got.BadConfig {
		got.Faults = n.net.Failures()
	}
	var r Result
	r.compare(&want, &got)
	if r.Diff == "" {
		return r.Failures
	}
	return append(r.Failures, r.Diff)
}
