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

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
)

// Host is what a plugin in a native program finds where a guest finds the host: a test
// plays it. What is left zero is the real one.
type Host struct {
	// Target is the probe's target, where URLs without a host lead. [Native] sets it.
	Target probe.Target

	// Dial makes the connections of [Dial], [HTTP] and [LookupDNS]. network is "tcp",
	// "udp" or "unix".
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Handshake makes TLS over a connection of Dial. Of what it returns, [Inspect] tells the
	// ConnectionState, if it has one.
	Handshake func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error)

	// RoundTrip carries out one hop of [HTTP], in place of Dial and Handshake.
	RoundTrip func(*http.Request) (*http.Response, error)

	// DNSServers are those that a [DNSQuery] asks which names none, each an IP and a
	// port. Nil means those of /etc/resolv.conf.
	DNSServers []string

	// KV is what the probe has kept, in place of what it keeps by itself. An attempt that
	// ends with an outcome changes it.
	KV map[string][]byte

	open *connections // of the attempt; nil outside of one
}

type hostKey struct{}

// WithHost returns a context in which a plugin finds h. It exists in native programs only.
func WithHost(ctx context.Context, h Host) context.Context {
	return context.WithValue(ctx, hostKey{}, h)
}

func hostOf(ctx context.Context) Host {
	h, _ := ctx.Value(hostKey{}).(Host)
	return h
}

// Dial connects to addr. network is "tcp", "udp", "tls" or "unix". In a guest the host
// dials, and only what the operator granted; in a native program it is net.Dialer. At the
// end of the attempt the connection is closed, if it still is open.
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

// dialled is a connection that remembers to whom it was made.
type dialled struct {
	net.Conn
	host string // a name or an address; "" of a socket
}

// connections are those that an attempt has made. They end with it, as a guest's do.
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
		_ = conn.Close() // most often for the second time
	}
}

// StartTLS makes the TLS of a connection that [Dial] made: the host's in a guest, and
// crypto/tls in a native program. What it returns takes the place of conn.
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

// handshakeError says what the host of a guest does.
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
		return nil, err
	}
	return secured, nil
}

// config is o as crypto/tls takes it.
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

// Inspect tells of a connection that [Dial] made: its addresses, how long it took to make,
// and what its TLS agreed on. A native program does not know the times.
func Inspect(conn net.Conn) (ConnInfo, error) {
	info := ConnInfo{
		Network: conn.RemoteAddr().Network(), Local: conn.LocalAddr().String(), Remote: conn.RemoteAddr().String(),
	}
	if secured, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		info.Network = "tls"
		state := secured.ConnectionState()
		info.Peer = abi.TLSInfoOf(&state)
	}
	return info, nil
}
