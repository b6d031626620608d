package oci

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/daeace23/prober/internal/netaddr"
	"github.com/daeace23/prober/plugin"
)

var (
	errNotHTTPS       = errors.New("the registry refers to an address without HTTPS")
	errMetadata       = errors.New("a link-local or metadata address, which a registry must not have")
	errNoHost         = errors.New("not the address of a host")
	errNearerNetwork  = errors.New("the registry refers to it over plain HTTP, and is not in such a network itself")
	errUnknownAddress = errors.New("the registry refers to it over plain HTTP and a proxy, and this host cannot look up its addresses")
	errInvalidHost    = errors.New("neither a name nor an address")
)

// guarded is a transport for one registry. It checks every address that it dials, since redirects,
// lists and token servers of the registry can refer to any. oras sends credentials to the registry
// only.
type guarded struct {
	base      *http.Transport
	plainHTTP bool
	own       string // the registry's HOST:PORT
	classOf   func(netip.AddrPort) netaddr.Class

	mu      sync.Mutex
	home    netaddr.Class   // the farthest class of the registry's addresses so far; Public at first
	settled bool            // whether home is the class of a dialled address
	proxies map[string]bool // HOST:PORT of the proxies that the environment names
}

// newGuarded returns a transport for the registry at host, a HOST or HOST:PORT.
func newGuarded(host string, plainHTTP bool, classOf func(netip.AddrPort) netaddr.Class) *guarded {
	scheme := "https"
	if plainHTTP {
		scheme = "http"
	}
	g := &guarded{plainHTTP: plainHTTP, own: hostPort(&url.URL{Scheme: scheme, Host: host}), classOf: classOf, proxies: make(map[string]bool)}
	g.base = http.DefaultTransport.(*http.Transport).Clone()
	g.base.ResponseHeaderTimeout = headerTimeout
	g.base.DialContext = g.dial
	return g
}

// hostPort returns the HOST:PORT of u as [http.Transport] dials it.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// RoundTrip implements [http.RoundTripper].
func (g *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if !g.plainHTTP && req.URL.Scheme != "https" {
		return nil, errNotHTTPS
	}
	if g.base.Proxy != nil {
		proxy, err := g.base.Proxy(req)
		if err == nil && proxy != nil {
			err = g.checkProxied(req, proxy)
		}
		if err != nil {
			return nil, err
		}
	}
	return g.base.RoundTrip(req)
}

// dial connects to an address that passes [guarded.check].
func (g *guarded) dial(ctx context.Context, network, asked string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: headerTimeout, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return g.check(asked, to)
	}}
	return dialer.DialContext(ctx, network, asked)
}

// check returns an error if requests of the registry must not reach the address to. asked is the
// HOST:PORT that resolved to it.
func (g *guarded) check(asked string, to netip.AddrPort) error {
	asked = strings.ToLower(asked)
	class := g.classOf(to)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case class == netaddr.Metadata:
		return fmt.Errorf("%s is %w", to.Addr(), errMetadata)
	case class == netaddr.NoHost:
		return fmt.Errorf("%s is %w", to.Addr(), errNoHost)
	case asked == g.own:
		if !g.settled || class < g.home {
			g.home, g.settled = class, true
		}
	case g.plainHTTP && class > g.home && !g.proxies[asked]:
		kind := map[netaddr.Class]string{netaddr.Private: "private", netaddr.Loopback: "loopback"}[class]
		return fmt.Errorf("%s is a %s address: %w", to.Addr(), kind, errNearerNetwork)
	}
	return nil
}

// checkProxied checks the addresses of a request that a proxy will send. Over HTTPS, the name need
// not resolve on this host, since the certificate proves it.
func (g *guarded) checkProxied(req *http.Request, proxy *url.URL) error {
	g.mu.Lock()
	g.proxies[hostPort(proxy)] = true
	g.mu.Unlock()
	asked := hostPort(req.URL)
	if asked == hostPort(proxy) && asked != g.own {
		return fmt.Errorf("%s is the proxy itself", asked)
	}
	host, port, err := net.SplitHostPort(asked)
	if err != nil {
		return err
	}
	addrs := make([]netip.Addr, 1)
	if addrs[0], err = netip.ParseAddr(host); err != nil {
		if !plugin.ValidHost(strings.TrimSuffix(host, ".")) {
			return fmt.Errorf("%.80q is %w", host, errInvalidHost)
		}
		addrs, err = net.DefaultResolver.LookupNetIP(req.Context(), "ip", host)
		if err != nil && (req.URL.Scheme == "https" || asked == g.own) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w: %w", host, errUnknownAddress, err)
		}
	}
	for _, addr := range addrs {
		to, err := netip.ParseAddrPort(net.JoinHostPort(addr.String(), port))
		if err != nil {
			return err
		}
		if err := g.check(asked, to); err != nil {
			return err
		}
	}
	return nil
}

// classOf is [netaddr.Nearest], except that the unspecified address is Loopback: dialling it
// reaches this host.
func classOf(to netip.AddrPort) netaddr.Class {
	if addr := netaddr.Plain(to.Addr()); addr.IsUnspecified() {
		return netaddr.Loopback
	}
	return netaddr.Nearest(to.Addr())
}

// retryPolicy returns the default policy of oras, except that it does not retry after status 501.
func retryPolicy() retry.Policy {
	policy := *retry.DefaultPolicy.(*retry.GenericPolicy)
	policy.Retryable = func(res *http.Response, err error) (bool, error) {
		if err == nil && res.StatusCode == http.StatusNotImplemented {
			return false, nil
		}
		return retry.DefaultPredicate(res, err)
	}
	return &policy
}
