package wasm

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/netaddr"
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
	host       *Host
	powers     *powers
	capability string // "net", "http" or "dns"
	target     probe.Target
	podIP      string
	pod        *probe.Pod       // may be nil
	container  *probe.Container // may be nil
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
		return r.network(ctx, scheme, addr, "")
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
			to, err = r.network(ctx, scheme, addr, "")
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
	if r.host.listensOn("unix", path) {
		return endpoint{}, denyf("dial unix %.200s: %s", path, ownListener)
	}
	if g, ok := r.powers.denies(d); ok {
		return endpoint{}, denyf("dial unix %.200s: the grants have %s", path, g)
	}
	if path == "" || path != r.target.Unix && !r.powers.allows(r.capability, d) {
		return endpoint{}, denyf("dial unix %.200s: not the probe's target", path)
	}
	return endpoint{network: "unix", addrs: []string{path}}, nil
}

// network resolves host:port; neither means the target's.
func (r *reach) network(ctx context.Context, scheme, addr, path string) (endpoint, error) {
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

// addresses returns what of host may be dialled. A name that is denied, or neither the
// target's nor granted, is not even looked up: queries would carry the guest's data out.
func (a *attempted) addresses(ctx context.Context, host string) ([]string, error) {
	if host == "" {
		return nil, fmt.Errorf("%s: the probe's target has no host", a.text)
	}
	a.onTarget = a.target.Unix == "" && int(a.dial.Port) == a.target.Port
	if literal, ok := parseLiteral(host); ok {
		return a.literal(ctx, literal)
	}
	a.dial.Name = canonicalName(host)
	switch a.onTarget = a.onTarget && sameName(host, a.target.Host); {
	case !a.onTarget && !plugin.ValidHost(a.dial.Name):
		return nil, a.denyf("not the probe's target, and neither a name nor an address")
	case !a.onTarget && !a.powers.mayName(a.capability, a.dial):
		return nil, a.denyf("not the probe's target")
	}
	if g, ok := a.powers.denies(a.dial); ok {
		return nil, a.denyf("denied by the grant %q", g)
	}
	if a.onTarget { // whose dot at the end decides whether search domains are tried
		host = a.target.Host
	} else if a.powers.deniesBelow(a.dial) { // a search domain could complete a name to a denied one
		host = a.dial.Name + "."
	}
	addrs, err := a.resolveName(ctx, host)
	if err != nil {
		return nil, err
	}
	return a.check(ctx, addrs)
}

// literal decides on an address, which is the target's if the target's host is it or
// resolves to it.
func (a *attempted) literal(ctx context.Context, addr netip.Addr) ([]string, error) {
	if named, ok := parseLiteral(a.target.Host); ok && a.onTarget && named == addr {
		return a.check(ctx, []netip.Addr{addr})
	}
	if a.dial.Addr = addr; a.powers.allows(a.capability, a.dial) {
		a.onTarget = false
		return a.check(ctx, []netip.Addr{addr})
	}
	if _, ok := parseLiteral(a.target.Host); !ok && a.onTarget {
		targets, err := a.resolveName(ctx, a.target.Host)
		if err != nil {
			return nil, err
		}
		for _, target := range targets {
			if netaddr.Plain(target) == addr {
				return a.check(ctx, []netip.Addr{addr})
			}
		}
	}
	return nil, a.denyf("not the probe's target")
}

func (a *attempted) resolveName(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == "" {
		return nil, fmt.Errorf("%s: the probe's target has no host", a.text)
	}
	addrs, err := a.reach.host.cfg.LookupIP(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.text, err)
	}
	return addrs, nil
}

// check keeps the addresses that may be dialled.
func (a *attempted) check(ctx context.Context, addrs []netip.Addr) ([]string, error) {
	var kept []string
	err := a.denyf("not the probe's target")
	for _, addr := range addrs {
		a.dial.Addr = netaddr.Plain(addr)
		if refused := a.refuse(ctx); refused != nil {
			err = refused
			continue
		}
		kept = append(kept, netip.AddrPortFrom(a.dial.Addr, a.dial.Port).String())
	}
	if len(kept) == 0 {
		return nil, err
	}
	return kept, nil
}

// refuse returns why the address at hand may not be dialled, or nil.
func (a *attempted) refuse(ctx context.Context) error {
	if !a.onTarget && !a.powers.allows(a.capability, a.dial) {
		return a.denyf("%s is neither the probe's target nor granted", a.dial.Addr)
	}
	if err := a.denied(ctx); err != nil {
		return err
	}
	named := a.powers.names(a.dial)
	for _, form := range netaddr.Forms(a.dial.Addr) {
		reason := ""
		switch class := netaddr.ClassOf(form); {
		case class == netaddr.NoHost:
			reason = "no address of a host"
		case class == netaddr.Metadata && !named:
			reason = "a link-local or metadata address"
		case class == netaddr.Loopback && !named && !a.mayLoop(form):
			reason = "a loopback address, and neither a declared port of the pod nor named"
		}
		if reason != "" {
			return a.denyf("%s is %s", a.dial.Addr, reason)
		}
	}
	return nil
}

// denied returns an error if the address at hand is a listener of this program, or if a
// grant denies it: as it was dialled, by the name of the target that is dialled, or by
// another name that leads to it.
func (a *attempted) denied(ctx context.Context) error {
	if a.reach.host.listensOn(a.dial.Scheme, netip.AddrPortFrom(a.dial.Addr, a.dial.Port).String()) {
		return a.denyf("%s is %s", a.dial.Addr, ownListener)
	}
	g, denied := a.powers.denies(a.dial)
	if !denied && a.onTarget {
		g, denied = a.powers.denies(a.called(a.target.Host))
	}
	if !denied {
		var err error
		if g, denied, err = a.deniedByOtherName(ctx); err != nil {
			return err
		}
	}
	if denied {
		return a.denyf("%s is denied by the grant %q", a.dial.Addr, g)
	}
	return nil
}

// called returns the dial at hand as if it had been made by name.
func (a *attempted) called(name string) plugin.Dial {
	d := a.dial
	d.Name = canonicalName(name)
	return d
}

// deniedByOtherName returns the grant that denies a name which leads to the address at hand.
// The names are those that the grants deny, and that of the target. They are looked up only
// if such a denial matches everything else of the dial.
func (a *attempted) deniedByOtherName(ctx context.Context) (plugin.Grant, bool, error) {
	names := a.powers.deniedNames()
	if _, literal := parseLiteral(a.target.Host); a.target.Host != "" && !literal {
		names = append(names, a.target.Host)
	}
	for _, name := range names {
		g, denied := a.powers.denies(a.called(name))
		if !denied {
			continue
		}
		addrs, err := a.reach.host.knownAddresses(ctx, name)
		if err != nil {
			return g, false, fmt.Errorf("%s: the addresses that the grant %q denies: %w", a.text, g, err)
		}
		for _, form := range netaddr.Forms(a.dial.Addr) {
			if slices.Contains(addrs, form) {
				return g, true, nil
			}
		}
	}
	return plugin.Grant{}, false, nil
}

// mayLoop reports whether a loopback address is the pod's own, at a port that one of its
// containers declares, or the target that is dialled names it.
func (a *attempted) mayLoop(addr netip.Addr) bool {
	own, ok := parseLiteral(a.podIP)
	if ok && (own == addr && a.declared() || a.onTarget && own.IsLoopback()) {
		return true
	}
	named, ok := parseLiteral(a.target.Host)
	return a.onTarget && (ok && named.IsLoopback() || sameName(a.target.Host, "localhost"))
}

// declared reports whether a container of the pod declares the port at hand.
func (a *attempted) declared() bool {
	protocol := "TCP"
	if a.dial.Scheme == "udp" {
		protocol = "UDP"
	}
	matches := func(p probe.Port) bool {
		return p.Number == int(a.dial.Port) && cmp.Or(p.Protocol, "TCP") == protocol
	}
	return a.pod != nil && slices.ContainsFunc(a.pod.Ports, matches) ||
		a.container != nil && slices.ContainsFunc(a.container.Ports, matches)
}

func parseLiteral(host string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, false
	}
	return netaddr.Plain(addr), true
}

// canonicalName returns a name in lower case and without the dot at its end.
func canonicalName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func sameName(a, b string) bool { return canonicalName(a) == canonicalName(b) }
