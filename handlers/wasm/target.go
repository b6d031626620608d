package wasm

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// denied is the error of a dial that the grants do not cover.
type denied struct{ text string }

func (e *denied) Error() string { return e.text }

func denyf(format string, args ...any) error {
	return &denied{fmt.Sprintf(format, args...)}
}

// endpoint is where a dial goes, after names are resolved and grants checked.
type endpoint struct {
	network  string // "tcp", "udp" or "unix"
	secure   bool   // tls
	onTarget bool   // it is the probe's own target
	host     string // as it was named
	options  url.Values
	addrs    []string
}

// reach is how far the guest of one call gets. The probe's own target is granted; the
// rest is up to the plugin's powers. Names are resolved here, and what is dialled is
// the address that was checked: a name that leads elsewhere the next time is checked
// again.
type reach struct {
	powers     *powers
	capability string // "net" or "http"
	target     probe.Target
	podIP      string
	lookup     func(ctx context.Context, host string) ([]netip.Addr, error)
}

// resolve returns where rawURL leads, or a *[denied] if the guest may not go there.
// See [abi.DialURL].
func (r *reach) resolve(ctx context.Context, rawURL string) (endpoint, error) {
	if rawURL == "" {
		rawURL = "tcp://"
		if r.target.Unix != "" {
			return r.unix(r.target.Unix)
		}
	}
	scheme, addr, ok := strings.Cut(rawURL, "://")
	if !ok {
		return endpoint{}, fmt.Errorf("dial %.200q: want tcp://, udp:// or tls://host:port, or unix:///path", rawURL)
	}
	switch scheme {
	case "unix":
		return r.unix(addr)
	case "tcp", "udp":
		return r.host(ctx, scheme, addr, "")
	case "tls":
		addr, query, _ := strings.Cut(addr, "?")
		options, err := url.ParseQuery(query)
		if err != nil {
			return endpoint{}, fmt.Errorf("dial %.200q: %w", rawURL, err)
		}
		var to endpoint
		if addr == "" && r.target.Unix != "" {
			to, err = r.unix(r.target.Unix)
			to.secure = true
		} else {
			to, err = r.host(ctx, scheme, addr, "")
		}
		to.options = options
		return to, err
	default:
		return endpoint{}, fmt.Errorf("dial %.200q: unknown scheme; known: tcp, udp, tls, unix", rawURL)
	}
}

func (r *reach) unix(path string) (endpoint, error) {
	if unescaped, err := url.PathUnescape(path); err == nil {
		path = unescaped
	}
	d := plugin.Dial{Scheme: "unix", Path: path}
	if g, ok := r.powers.denies(d); ok {
		return endpoint{}, denyf("dial unix %.200s: the grants have %s", path, g)
	}
	if path == "" || path != r.target.Unix && !r.powers.allows(r.capability, d) {
		return endpoint{}, denyf("dial unix %.200s: not the probe's target", path)
	}
	return endpoint{network: "unix", addrs: []string{path}}, nil
}

// host resolves host:port; neither means the target's.
func (r *reach) host(ctx context.Context, scheme, addr, path string) (endpoint, error) {
	if addr == "" && r.target == (probe.Target{}) {
		return endpoint{}, fmt.Errorf("dial %s: the probe has no target", scheme)
	}
	if addr == "" && r.target.Unix == "" {
		addr = net.JoinHostPort(r.target.Host, strconv.Itoa(r.target.Port))
	}
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return endpoint{}, fmt.Errorf("dial %s %.200s: want host:port", scheme, addr)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return endpoint{}, fmt.Errorf("dial %s %.200s: want a port from 1 to 65535", scheme, addr)
	}
	to := endpoint{network: "tcp", secure: scheme == "tls", host: host}
	if scheme == "udp" {
		to.network = "udp"
	}
	a := attempted{reach: r, text: fmt.Sprintf("dial %s %.200s", scheme, addr), dial: plugin.Dial{Scheme: scheme, Port: uint16(port), Path: path}}
	to.addrs, err = a.addresses(ctx, host)
	to.onTarget = a.onTarget
	return to, err
}

// attempted is a dial that is being decided on.
type attempted struct {
	*reach
	text     string // how its errors begin
	dial     plugin.Dial
	onTarget bool // it is the target that is dialled
}

func (a *attempted) denyf(format string, args ...any) error {
	return denyf("%s: %s", a.text, fmt.Sprintf(format, args...))
}

// addresses returns what of host may be dialled. A name that is neither the target's
// nor granted is not even looked up: queries would carry the guest's data out.
func (a *attempted) addresses(ctx context.Context, host string) ([]string, error) {
	if host == "" {
		return nil, fmt.Errorf("%s: the probe's target has no host", a.text)
	}
	a.onTarget = a.target.Unix == "" && int(a.dial.Port) == a.target.Port
	if literal, ok := parseLiteral(host); ok {
		return a.literal(ctx, literal)
	}
	a.dial.Name = strings.ToLower(strings.TrimSuffix(host, "."))
	switch a.onTarget = a.onTarget && sameName(host, a.target.Host); {
	case !a.onTarget && !plugin.ValidHost(a.dial.Name):
		return nil, a.denyf("not the probe's target, and neither a name nor an address")
	case !a.onTarget && !a.powers.mayName(a.capability, a.dial):
		return nil, a.denyf("not the probe's target")
	}
	if a.onTarget { // whose dot at the end decides whether search domains are tried
		host = a.target.Host
	}
	addrs, err := a.resolveName(ctx, host)
	if err != nil {
		return nil, err
	}
	return a.check(addrs)
}

// literal decides on an address, which is the target's if the target's host is it or
// resolves to it.
func (a *attempted) literal(ctx context.Context, addr netip.Addr) ([]string, error) {
	if named, ok := parseLiteral(a.target.Host); ok && a.onTarget && named == addr {
		return a.check([]netip.Addr{addr})
	}
	if a.dial.Addr = addr; a.powers.allows(a.capability, a.dial) {
		a.onTarget = false
		return a.check([]netip.Addr{addr})
	}
	if _, ok := parseLiteral(a.target.Host); !ok && a.onTarget {
		targets, err := a.resolveName(ctx, a.target.Host)
		if err != nil {
			return nil, err
		}
		for _, target := range targets {
			if target.Unmap().WithZone("") == addr {
				return a.check([]netip.Addr{addr})
			}
		}
	}
	return nil, a.denyf("not the probe's target")
}

func (a *attempted) resolveName(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == "" {
		return nil, fmt.Errorf("%s: the probe's target has no host", a.text)
	}
	addrs, err := a.lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.text, err)
	}
	return addrs, nil
}

// check keeps the addresses that may be dialled.
func (a *attempted) check(addrs []netip.Addr) ([]string, error) {
	var kept []string
	err := a.denyf("not the probe's target")
	for _, addr := range addrs {
		a.dial.Addr = addr.Unmap().WithZone("")
		if reason := a.refuse(); reason != "" {
			err = a.denyf("%s is %s", a.dial.Addr, reason)
			continue
		}
		kept = append(kept, netip.AddrPortFrom(a.dial.Addr, a.dial.Port).String())
	}
	if len(kept) == 0 {
		return nil, err
	}
	return kept, nil
}

// refuse says why the address at hand may not be dialled, or "".
func (a *attempted) refuse() string {
	if !a.onTarget && !a.powers.allows(a.capability, a.dial) {
		return "neither the probe's target nor granted"
	}
	if g, ok := a.powers.denies(a.dial); ok {
		return fmt.Sprintf("denied by the grant %q", g)
	}
	named := a.powers.names(a.dial)
	for inner := a.dial.Addr; inner.IsValid(); inner = embedded(inner) {
		switch {
		case inner.IsUnspecified() || inner.IsMulticast() || inner == broadcast:
			return "no address of a host"
		case (inner.IsLinkLocalUnicast() || isMetadata(inner)) && !named:
			return "a link-local or metadata address"
		case inner.IsLoopback() && !named && !a.mayLoop(inner):
			return "a loopback address, and neither the pod's own nor named"
		}
	}
	return ""
}

// mayLoop reports whether a loopback address is the pod's own, or the target that is
// dialled names it.
func (a *attempted) mayLoop(addr netip.Addr) bool {
	if own, ok := parseLiteral(a.podIP); ok && (own == addr || a.onTarget && own.IsLoopback()) {
		return true
	}
	named, ok := parseLiteral(a.target.Host)
	return a.onTarget && (ok && named.IsLoopback() || sameName(a.target.Host, "localhost"))
}

func parseLiteral(host string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.Unmap().WithZone(""), true
}

func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

var (
	broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	localNAT  = netip.MustParsePrefix("64:ff9b:1::/48")
	siit      = netip.MustParsePrefix("::ffff:0:0:0/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
	compat    = netip.MustParsePrefix("::/96")
)

// isMetadata reports whether a cloud keeps its metadata at addr. Those that are
// link-local are not listed.
func isMetadata(addr netip.Addr) bool {
	switch addr.String() {
	case "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192":
		return true
	default:
		return false
	}
}

// embedded returns the IPv4 address that an IPv6 one leads to by translation, or an
// invalid one.
func embedded(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return netip.Addr{}
	}
	b := addr.As16()
	switch {
	case addr.Is4In6():
		return addr.Unmap()
	case nat64.Contains(addr), localNAT.Contains(addr), siit.Contains(addr), compat.Contains(addr) && !addr.IsLoopback() && !addr.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6]))
	default:
		return netip.Addr{}
	}
}
