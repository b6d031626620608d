package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/netaddr"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Network has the dependencies that the decisions for all plugins of a host share.
type Network struct {
	// LookupIP resolves names.
	LookupIP func(ctx context.Context, host string) ([]netip.Addr, error)
	// Listeners are the addresses that this program listens on: no guest reaches them.
	Listeners []net.Addr
	Clock     Clock

	known nameCache
}

// Clock is the clock of the cache of names.
type Clock interface {
	Now() time.Time
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// Policy decides where one call may dial with one capability: to the target of the probe, and to
// the places that the permissions of the plugin allow.
// See RATIONALE.md, "Why may a plugin reach its target and nothing else?"
type Policy struct {
	Network     *Network
	Permissions *Permissions
	Capability  string
	Target      probe.Target
	PodIP       string
	Pod         *probe.Pod       // may be nil
	Container   *probe.Container // may be nil
	// Elsewhere means that dials are made in the network namespace of the pod, and that this program
	// runs in another one. Unix sockets are the same in both.
	Elsewhere bool
	// Guard returns an error if the target must not be dialled. One argument is set: the host, before
	// it is looked up, an address, right before it is dialled, or a unix socket. Guard is not called for
	// dials that the permissions allow. Nil means no guard.
	Guard func(host string, addr netip.Addr, socket string) error
	// OwnName reports whether the operator of this program names the target's host, so that the name may
	// lead to loopback. Debian, for example, gives a host's own name 127.0.1.1. Nil means never.
	OwnName func(host string) bool
}

// Endpoint is an allowed destination of a dial, with resolved names.
type Endpoint struct {
	Network  string     // "tcp", "udp", "unix" or "icmp"
	Secure   bool       // with TLS
	OnTarget bool       // it is the target of the probe
	Host     string     // as the guest named it
	Options  url.Values // the query of the URL
	Addrs    []string   // host:port, with port 0 for icmp; or the path of the socket
}

// Resolve returns the endpoint of rawURL, or a *[Denied] if the guest may not dial it.
func (p *Policy) Resolve(ctx context.Context, rawURL string) (Endpoint, error) {
	if rawURL == "" {
		rawURL = "tcp://"
		if p.Target.Unix != "" {
			return p.Unix(p.Target.Unix)
		}
	}
	scheme, addr, ok := strings.Cut(rawURL, "://")
	if !ok {
		return Endpoint{}, fmt.Errorf("dial %.200q: want tcp://, udp:// or tls://host:port, or unix:///path", rawURL)
	}
	switch scheme {
	case "unix":
		return p.Unix(addr)
	case "tcp", "udp", "tls":
		addr, query, _ := strings.Cut(addr, "?")
		options, err := url.ParseQuery(query)
		if err != nil {
			return Endpoint{}, fmt.Errorf("dial %.200q: %w", rawURL, err)
		}
		var to Endpoint
		if addr == "" && p.Target.Unix != "" && scheme == "tls" {
			to, err = p.Unix(p.Target.Unix)
			to.Secure = true
		} else {
			to, err = p.Dial(ctx, scheme, addr, "")
		}
		to.Options = options
		return to, err
	default:
		return Endpoint{}, fmt.Errorf("dial %.200q: unknown scheme; known: tcp, udp, tls, unix", rawURL)
	}
}

// Unix returns the endpoint of a socket, or a *[Denied].
func (p *Policy) Unix(path string) (Endpoint, error) {
	if unescaped, err := url.PathUnescape(path); err == nil {
		path = unescaped
	}
	d := plugin.Dial{Scheme: "unix", Path: path}
	if p.Network.listensOn("unix", path) {
		return Endpoint{}, denyf("dial unix %.200s: denied: it is %s", path, ownListener)
	}
	if g, ok := p.Permissions.denies(d); ok {
		return Endpoint{}, denyf("dial unix %.200s: denied: the grant %q denies it", path, g)
	}
	allowed := p.Permissions.allows(p.Capability, d)
	if path == "" || path != p.Target.Unix && !allowed {
		return Endpoint{}, denyf("dial unix %.200s: denied: %s", path, notPermitted)
	}
	if !allowed && p.Guard != nil {
		if err := p.Guard("", netip.Addr{}, path); err != nil {
			return Endpoint{}, denyf("dial unix %.200s: denied: %v", path, err)
		}
	}
	return Endpoint{Network: "unix", Addrs: []string{path}}, nil
}

// Dial returns the endpoint of addr, which is host:port, or a *[Denied]. An empty addr means the
// target. path is the path of a URL, or "".
func (p *Policy) Dial(ctx context.Context, scheme, addr, path string) (Endpoint, error) {
	if addr == "" && p.Target == (probe.Target{}) {
		return Endpoint{}, fmt.Errorf("dial %s: the probe has no target", scheme)
	}
	if addr == "" && p.Target.Unix == "" {
		addr = net.JoinHostPort(p.Target.Host, strconv.Itoa(p.Target.Port))
	}
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return Endpoint{}, fmt.Errorf("dial %s %.200s: want host:port", scheme, addr)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return Endpoint{}, fmt.Errorf("dial %s %.200s: want a port from 1 to 65535", scheme, addr)
	}
	to := Endpoint{Network: "tcp", Secure: scheme == "tls", Host: host}
	if scheme == "udp" {
		to.Network = "udp"
	}
	d := dial{Policy: p, addr: addr, Dial: plugin.Dial{Scheme: scheme, Port: uint16(port), Path: path}}
	to.Addrs, err = d.addresses(ctx, host)
	to.OnTarget = d.onTarget
	return to, err
}

// Echo returns the endpoint of echo requests to host, or a *[Denied]. An empty host means the target.
func (p *Policy) Echo(ctx context.Context, host string) (Endpoint, error) {
	if host == "" {
		host = p.Target.Host
	}
	d := dial{Policy: p, prefix: icmp, Dial: plugin.Dial{Scheme: icmp}}
	if host != "" {
		d.prefix = fmt.Sprintf("icmp %.200s", host)
	}
	addrs, err := d.addresses(ctx, host)
	return Endpoint{Network: icmp, OnTarget: d.onTarget, Host: host, Addrs: addrs}, err
}

// icmp is the scheme of echo requests, which have no port.
const icmp = "icmp"

// CheckTCP returns an error if dialing a DNS server over TCP is denied. The guest may already query it
// over UDP. host is the name of the server. The error begins with text.
func (p *Policy) CheckTCP(ctx context.Context, host string, at netip.AddrPort, text string) error {
	d := dial{Policy: p, prefix: text, Dial: plugin.Dial{Scheme: "tcp", Name: CanonicalName(host), Addr: netaddr.Plain(at.Addr()), Port: at.Port()}}
	if err := d.decideDenials(); err != nil {
		return err
	}
	return d.checkAliases(ctx)
}

// addresses returns the addresses of host that may be dialled.
func (d *dial) addresses(ctx context.Context, host string) ([]string, error) {
	if host == "" {
		return nil, fmt.Errorf("%s: the probe's target has no host", d.text())
	}
	d.onTarget = d.Target.Unix == "" && (d.Scheme == icmp || int(d.Port) == d.Target.Port)
	if literal, ok := parseLiteral(host); ok {
		return d.literal(ctx, literal)
	}
	d.Name, d.onTarget = CanonicalName(host), d.onTarget && sameName(host, d.Target.Host)
	if err := d.decideName(); err != nil {
		return nil, err
	}
	if d.onTarget { // keep a trailing dot: it decides whether search domains are tried
		host = d.Target.Host
	} else if d.Permissions.deniesBelow(d.Dial) { // a search domain could turn the name into a denied one
		host = d.Name + "."
	}
	addrs, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	return d.check(ctx, addrs)
}

// literal decides on a dial to a literal address. The dial is to the target if the target's host is
// this address or resolves to it.
func (d *dial) literal(ctx context.Context, addr netip.Addr) ([]string, error) {
	target, literal := parseLiteral(d.Target.Host)
	if literal && d.onTarget && target == addr {
		return d.check(ctx, []netip.Addr{addr})
	}
	if d.Addr = addr; d.Permissions.allows(d.Capability, d.Dial) {
		d.onTarget = false
		return d.check(ctx, []netip.Addr{addr})
	}
	if !literal && d.onTarget {
		if err := d.decideGuard(d.Target.Host, netip.Addr{}); err != nil {
			return nil, err
		}
		targets, err := d.lookup(ctx, d.Target.Host)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(targets, func(t netip.Addr) bool { return netaddr.Plain(t) == addr }) {
			return d.check(ctx, []netip.Addr{addr})
		}
	}
	return nil, d.denyf(notPermitted)
}

func (d *dial) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == "" {
		return nil, fmt.Errorf("%s: the probe's target has no host", d.text())
	}
	addrs, err := d.Network.LookupIP(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.text(), err)
	}
	return addrs, nil
}

// check returns the addresses that may be dialled, or an error if there is none.
func (d *dial) check(ctx context.Context, addrs []netip.Addr) ([]string, error) {
	var kept []string
	var refused error
	for _, addr := range addrs {
		d.Addr = netaddr.Plain(addr)
		if err := d.checkAddr(ctx); err != nil {
			refused = err
			continue
		}
		kept = append(kept, netip.AddrPortFrom(d.Addr, d.Port).String())
	}
	switch {
	case len(kept) > 0:
		return kept, nil
	case refused == nil: // no addresses
		refused = d.denyf(notPermitted)
	}
	return nil, refused
}

func (d *dial) checkAddr(ctx context.Context) error {
	if err := d.decideGrant(); err != nil {
		return err
	}
	if err := d.checkAliases(ctx); err != nil {
		return err
	}
	if err := d.decideGuard(d.Target.Host, d.Addr); err != nil {
		return d.undecided(err)
	}
	return d.undecided(d.decideClass())
}

// checkAliases returns an error if a denied name resolves to the address of the dial.
func (d *dial) checkAliases(ctx context.Context) error {
	for _, other := range d.aliases() {
		addrs, err := d.Network.addressesOf(ctx, other.name)
		if err != nil {
			return fmt.Errorf("%s: the addresses that the grant %q denies: %w", d.text(), other.grant, err)
		}
		for _, form := range netaddr.Forms(d.Addr) {
			if slices.Contains(addrs, form) {
				return d.denyGrant(other.grant)
			}
		}
	}
	return nil
}

func parseLiteral(host string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, false
	}
	return netaddr.Plain(addr), true
}

// CanonicalName returns a name in lower case and without a trailing dot.
func CanonicalName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func sameName(a, b string) bool { return CanonicalName(a) == CanonicalName(b) }
