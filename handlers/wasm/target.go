package wasm

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

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
	network string // "tcp" or "unix"
	addrs   []string
}

// grant is the one grant there is, "target": a guest may dial what it probes and
// nothing else.
type grant struct {
	target probe.Target
	podIP  string
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// resolve returns where rawURL leads, or a *[denied] if the guest may not go there.
// An empty URL is the target. A name other than the target's is not even looked up:
// queries would carry the guest's data out.
func (g *grant) resolve(ctx context.Context, rawURL string) (endpoint, error) {
	network, addr := "tcp", ""
	if rawURL != "" {
		var ok bool
		if network, addr, ok = strings.Cut(rawURL, "://"); !ok {
			return endpoint{}, fmt.Errorf("dial %.200q: want tcp://host:port or unix:///path", rawURL)
		}
	} else if g.target.Unix != "" {
		network, addr = "unix", g.target.Unix
	} else {
		addr = net.JoinHostPort(g.target.Host, strconv.Itoa(g.target.Port))
	}
	switch network {
	case "tcp":
		return g.tcp(ctx, addr)
	case "unix":
		return g.unix(addr)
	default:
		return endpoint{}, fmt.Errorf("dial %.200q: this version of prober dials tcp:// and unix:// only", rawURL)
	}
}

func (g *grant) unix(path string) (endpoint, error) {
	if unescaped, err := url.PathUnescape(path); err == nil {
		path = unescaped
	}
	if g.target.Unix == "" || path != g.target.Unix {
		return endpoint{}, denyf("dial unix %.200s: not the probe's target", path)
	}
	return endpoint{"unix", []string{g.target.Unix}}, nil
}

func (g *grant) tcp(ctx context.Context, addr string) (endpoint, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return endpoint{}, fmt.Errorf("dial tcp %.200s: want host:port", addr)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return endpoint{}, fmt.Errorf("dial tcp %.200s: want a port from 1 to 65535", addr)
	}
	if g.target.Unix != "" || int(port) != g.target.Port {
		return endpoint{}, denyf("dial tcp %.200s: not the probe's target", addr)
	}
	literal, isLiteral := parseLiteral(host)
	if !isLiteral && !sameName(host, g.target.Host) {
		return endpoint{}, denyf("dial tcp %.200s: not the probe's target", addr)
	}
	targets, err := g.addresses(ctx)
	if err != nil {
		return endpoint{}, err
	}
	return g.check(addr, targets, literal, uint16(port))
}

// check keeps the addresses that may be dialled: those of the target, and of them
// the literal one where the guest named one.
func (g *grant) check(addr string, targets []netip.Addr, literal netip.Addr, port uint16) (endpoint, error) {
	out := endpoint{network: "tcp"}
	err := denyf("dial tcp %.200s: not the probe's target", addr)
	for _, target := range targets {
		target = target.Unmap().WithZone("")
		if literal.IsValid() && target != literal {
			continue
		}
		if reason := g.refuse(target); reason != "" {
			err = denyf("dial tcp %.200s: %s is %s", addr, target, reason)
			continue
		}
		out.addrs = append(out.addrs, netip.AddrPortFrom(target, port).String())
	}
	if len(out.addrs) == 0 {
		return endpoint{}, err
	}
	return out, nil
}

// addresses returns what the target's host resolves to.
func (g *grant) addresses(ctx context.Context) ([]netip.Addr, error) {
	if g.target.Host == "" {
		return nil, fmt.Errorf("dial tcp: the probe's target has no host")
	}
	if addr, ok := parseLiteral(g.target.Host); ok {
		return []netip.Addr{addr}, nil
	}
	addrs, err := g.lookup(ctx, g.target.Host)
	if err != nil {
		return nil, fmt.Errorf("dial tcp %.200s: %w", g.target.Host, err)
	}
	return addrs, nil
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

// refuse says why an address of the target may not be dialled all the same, or "".
func (g *grant) refuse(addr netip.Addr) string {
	for inner := addr; inner.IsValid(); inner = embedded(inner) {
		switch {
		case inner.IsUnspecified() || inner.IsMulticast() || inner == broadcast:
			return "no address of a host"
		case inner.IsLinkLocalUnicast() || isMetadata(inner):
			return "a link-local or metadata address"
		case inner.IsLoopback() && !g.mayLoop():
			return "a loopback address, and neither the pod's own nor named by the target"
		}
	}
	return ""
}

// mayLoop reports whether loopback is the pod's own address, or named by the target.
func (g *grant) mayLoop() bool {
	if own, ok := parseLiteral(g.podIP); ok && own.IsLoopback() {
		return true
	}
	named, ok := parseLiteral(g.target.Host)
	return ok && named.IsLoopback() || sameName(g.target.Host, "localhost")
}

var (
	broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
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
	case nat64.Contains(addr), compat.Contains(addr) && !addr.IsLoopback() && !addr.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6]))
	default:
		return netip.Addr{}
	}
}
