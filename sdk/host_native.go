//go:build !wasip1

package sdk

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/probe"
)

// Host replaces the host of a plugin in a native program, for tests. A zero field means the real network.
type Host struct {
	// Target is the target of the probe, for URLs without a host. [Native] sets it.
	Target probe.Target

	// Dial makes the connections of [Dial], [HTTP] and [LookupDNS]. network is "tcp",
	// "udp" or "unix".
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Handshake starts TLS on a connection of Dial. If the result has a ConnectionState,
	// [Inspect] describes it.
	Handshake func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error)

	// RoundTrip makes one request of [HTTP], instead of Dial and Handshake. It must not follow redirects.
	RoundTrip func(*http.Request) (*http.Response, error)

	// DNSServers are queried by a [DNSQuery] without a server. Each is an IP address and a port. Nil means
	// the servers in /etc/resolv.conf.
	DNSServers []string

	// Echo replies to the requests of [Echo], which have a host. If it is nil, there are no replies.
	Echo func(ctx context.Context, q EchoRequest) (EchoReply, error)

	// KV has the values of [KV], instead of a map of the handler. It changes if an attempt ends with an
	// outcome.
	KV map[string][]byte

	open *connections // connections of the attempt; nil without one
}

type hostKey struct{}

// WithHost returns a context in which a plugin uses h. It exists only in native programs.
func WithHost(ctx context.Context, h Host) context.Context {
	return context.WithValue(ctx, hostKey{}, h)
}

func hostOf(ctx context.Context) Host {
	h, _ := ctx.Value(hostKey{}).(Host)
	return h
}

// dialTarget connects to the target of r.
func dialTarget(ctx context.Context, r *Request) (net.Conn, error) {
	if r.Target.Unix != "" {
		return Dial(ctx, "unix", r.Target.Unix)
	}
	return Dial(ctx, "tcp", r.Addr())
}

// Dial connects to addr. network is "tcp", "udp", "tls" or "unix". In a guest the host dials, if a grant of
// the operator allows it. In a native program Dial uses net.Dialer. The connection is closed at the end of
// the attempt.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if network == "tls" {
		raw, err := Dial(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		secured, err := StartTLS(ctx, raw, TLSOptions{})
		if err != nil {
			_ = raw.Close()
		}
		if e, ok := errors.AsType[*handshakeError](err); ok {
			e.op = "dial tls " + addr
		}
		return secured, err
	}
	h := hostOf(ctx)
	raw, err := h.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	h.open.add(raw)
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = ""
	}
	return &dialled{raw, host}, nil
}

func (h Host) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if h.Dial != nil {
		return h.Dial(ctx, network, addr)
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// dialled is a connection with the dialled host.
type dialled struct {
	net.Conn
	host string // a name or an address; "" for a Unix socket
}

// connections has the connections of an attempt. They are closed at its end, as in a guest.
type connections struct {
	mu    sync.Mutex
	all   []net.Conn
	ended bool
}

func (c *connections) add(conn net.Conn) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all = append(c.all, conn); c.ended {
		_ = conn.Close()
	}
}

func (c *connections) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, conn := range c.all {
		_ = conn.Close() // most are already closed
	}
}

// StartTLS starts TLS on a connection of [Dial]: by the host in a guest, with crypto/tls in a native
// program. The returned connection replaces conn.
func StartTLS(ctx context.Context, conn net.Conn, o TLSOptions) (net.Conn, error) {
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("starttls: %w", err)
	}
	if d, ok := conn.(*dialled); ok {
		conn = d.Conn
		if config.ServerName == "" {
			config.ServerName = d.host
		}
	}
	secured, err := hostOf(ctx).handshake(ctx, conn, config)
	if err != nil {
		return nil, &handshakeError{"starttls", err}
	}
	return secured, nil
}

// handshakeError has the same message as the error of the host of a guest.
type handshakeError struct {
	op  string
	err error
}

func (e *handshakeError) Error() string {
	return e.op + ": tls: " + strings.TrimPrefix(e.err.Error(), "tls: ")
}

func (e *handshakeError) Unwrap() error { return e.err }

func (h Host) handshake(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
	if h.Handshake != nil {
		return h.Handshake(ctx, conn, config)
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, certificates.Explain(err, time.Now())
	}
	return secured, nil
}

// config returns o for crypto/tls.
func (o TLSOptions) config() (*tls.Config, error) {
	config := &tls.Config{ServerName: o.ServerName, NextProtos: o.ALPN, InsecureSkipVerify: o.InsecureSkipVerify}
	if o.CA == "" {
		return config, nil
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM([]byte(o.CA)) {
		return nil, errors.New("ca: no certificate in PEM")
	}
	return config, nil
}

// Inspect describes a connection of [Dial]: its addresses, the durations of dialing, and its TLS. A native
// program does not know the durations.
func Inspect(conn net.Conn) (ConnInfo, error) {
	info := ConnInfo{
		Network: conn.RemoteAddr().Network(), Local: conn.LocalAddr().String(), Remote: conn.RemoteAddr().String(),
	}
	if secured, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		info.Network = "tls"
		state := secured.ConnectionState()
		info.Peer = abi.TLSInfoOf(&state, time.Now())
	}
	return info, nil
}
