//go:build !wasip1

package sdk

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
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

	// Dial makes the connections of [Dial], [HTTP] and [LookupDNS]. network is "tcp", "udp" or "unix", or
	// "tcp4" and the like for an IP family. Source addresses are not passed.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Handshake starts TLS on a connection of Dial. If the result has a ConnectionState,
	// [Inspect] describes it.
	Handshake func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error)

	// RoundTrip makes one request of [HTTP], instead of Dial and Handshake. It must not follow redirects.
	RoundTrip func(*http.Request) (*http.Response, error)

	// DNSServers are queried by a [DNSQuery] without a server. Each is an IP address and a port. Nil means
	// the servers in /etc/resolv.conf.
	DNSServers []string

	// Credentials are those that [TLSOptions] may name.
	Credentials map[string]*tls.Config

	// Echo replies to the requests of [Echo], which have a host. If it is nil, there are no replies.
	Echo func(ctx context.Context, q EchoRequest) (EchoReply, error)

	// Files are the files of [ReadFile] and the like, without the first slash of their paths. Nil means none.
	Files fs.FS

	// KV has the values of [KV], instead of a map of the handler. It changes if an attempt ends with an
	// outcome.
	KV map[string][]byte

	// Features are the features of [Request]. Nil means all capabilities.
	Features []string

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

// dial connects to addr over a network without an IP family.
func (d *Dialer) dial(ctx context.Context, network, family, addr string) (net.Conn, error) {
	if network == "tls" {
		raw, err := d.dial(ctx, "tcp", family, addr)
		if err != nil {
			return nil, err
		}
		secured, err := StartTLS(ctx, raw, d.TLS)
		if err != nil {
			_ = raw.Close()
		}
		if e, ok := errors.AsType[*handshakeError](err); ok {
			e.op = "dial tls " + addr
		}
		return secured, err
	}
	h := hostOf(ctx)
	raw, err := h.dialBy(ctx, abi.Route{IPFamily: family, SourceAddress: d.SourceAddress}, network, addr)
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

// dialBy connects to addr by a route. If the route prefers a family, the other one is dialled after it.
func (h Host) dialBy(ctx context.Context, route abi.Route, network, addr string) (net.Conn, error) {
	source, err := sourceOf(route, network)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", network, err)
	}
	switch {
	case network == "unix" || route.IPFamily == "":
		return h.dial(ctx, source, network, addr)
	case route.IPFamily == abi.IPv4Only || route.IPFamily == abi.IPv6Only:
		return h.dial(ctx, source, network+route.IPFamily, addr)
	}
	first, second, _ := strings.Cut(route.IPFamily, ",")
	half, cancel := ctx, func() {}
	if deadline, ok := ctx.Deadline(); ok {
		half, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
	}
	defer cancel()
	conn, err := h.dial(half, source, network+first, addr)
	if err == nil {
		return conn, nil
	}
	if conn, secondErr := h.dial(ctx, source, network+second, addr); secondErr == nil {
		return conn, nil
	} else if _, none := errors.AsType[*net.AddrError](err); none {
		err = secondErr // there is no address of the first family
	}
	return nil, err
}

// sourceOf returns the source address of a route, nil for the system's. It also checks the IP family.
func sourceOf(route abi.Route, network string) (net.Addr, error) {
	switch route.IPFamily {
	case "", abi.IPv4Only, abi.IPv6Only, abi.IPv4First, abi.IPv6First:
	default:
		return nil, fmt.Errorf("ipFamily %.40q: must be %q, %q, %q or %q", route.IPFamily, abi.IPv4Only, abi.IPv6Only, abi.IPv4First, abi.IPv6First)
	}
	if route.SourceAddress == "" {
		return nil, nil
	}
	ip, err := netip.ParseAddr(route.SourceAddress)
	if err != nil || ip.Zone() != "" {
		return nil, fmt.Errorf("sourceAddress %.80q: must be an IP address", route.SourceAddress)
	}
	if network == "udp" {
		return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip.Unmap(), 0)), nil
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip.Unmap(), 0)), nil
}

func (h Host) dial(ctx context.Context, source net.Addr, network, addr string) (net.Conn, error) {
	if h.Dial != nil {
		return h.Dial(ctx, network, addr)
	}
	return (&net.Dialer{LocalAddr: source}).DialContext(ctx, network, addr)
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
	config, err := hostOf(ctx).tlsConfig(o)
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

var tlsVersions = map[string]uint16{"": 0, "TLS10": tls.VersionTLS10, "TLS11": tls.VersionTLS11, "TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13}

// tlsConfig returns o for crypto/tls.
func (h Host) tlsConfig(o TLSOptions) (*tls.Config, error) {
	config := new(tls.Config)
	if o.Credentials != "" {
		named, ok := h.Credentials[o.Credentials]
		if !ok {
			return nil, fmt.Errorf("tls: credentials %.80q: %w: Host.Credentials does not have them", o.Credentials, fs.ErrPermission)
		}
		config = named.Clone()
	}
	var okMin, okMax bool
	config.MinVersion, okMin = tlsVersions[o.MinVersion]
	config.MaxVersion, okMax = tlsVersions[o.MaxVersion]
	if !okMin || !okMax {
		return nil, fmt.Errorf("tls: versions %.20q to %.20q: must be TLS10, TLS11, TLS12 or TLS13", o.MinVersion, o.MaxVersion)
	}
	config.ServerName = cmp.Or(o.ServerName, config.ServerName)
	config.NextProtos, config.InsecureSkipVerify = o.ALPN, o.InsecureSkipVerify
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
