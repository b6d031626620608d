package egress

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/daeace23/prober/internal/netaddr"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Denied is the error for a dial or look-up that the grants do not allow.
type Denied struct {
	text string
	// Undecided means that the target's name leads to loopback. The denial says nothing about the target, so the
	// attempt has no result.
	Undecided bool
}

func (e *Denied) Error() string { return e.text }

func denyf(format string, args ...any) error {
	return &Denied{text: fmt.Sprintf(format, args...)}
}

const (
	ownListener  = "a listener of prober itself, which no plugin may reach"
	notPermitted = "not the probe's target, and not both requested by the plugin and granted"
)

// dial is a connection request that is checked against the grants. Its methods in this file look up no
// names; some of its methods in dial.go do.
type dial struct {
	plugin.Dial
	*Policy
	addr     string // as the guest named it
	prefix   string // prefix of its errors; "" means addr
	onTarget bool   // it is to the target of the probe
}

// text returns the prefix of the dial's errors.
func (d *dial) text() string {
	if d.prefix != "" {
		return d.prefix
	}
	return fmt.Sprintf("dial %s %.200s", d.Scheme, d.addr)
}

func (d *dial) denyf(format string, args ...any) error {
	return denyf("%s: denied: %s", d.text(), fmt.Sprintf(format, args...))
}

// decideName returns an error if the name of the dial may not be looked up. The DNS query itself can
// leak data.
func (d *dial) decideName() error {
	switch {
	case d.onTarget:
		if err := d.decideGuard(d.Target.Host, netip.Addr{}); err != nil {
			return err
		}
	case !plugin.ValidHost(d.Name):
		return d.denyf("not the probe's target, and neither a name nor an address")
	case !d.Permissions.mayResolve(d.Capability, d.Dial):
		return d.denyf(notPermitted)
	}
	if g, ok := d.Permissions.denies(d.Dial); ok {
		return d.denyf("the grant %q denies %s", g, d.Name)
	}
	return nil
}

// decideGrant returns an error if the address of the dial is neither the target nor granted, or if it
// is denied.
func (d *dial) decideGrant() error {
	if !d.onTarget && !d.Permissions.allows(d.Capability, d.Dial) {
		return d.denyf("%s is "+notPermitted, d.Addr)
	}
	return d.decideDenials()
}

// decideDenials returns an error if the address is a listener of this program, or if a grant denies
// it. Grants are matched with the name of the dial and with the name of the target.
func (d *dial) decideDenials() error {
	if !d.Elsewhere && d.Network.listensOn(d.Scheme, netip.AddrPortFrom(d.Addr, d.Port).String()) {
		return d.denyf("%s is %s", d.Addr, ownListener)
	}
	g, denied := d.Permissions.denies(d.Dial)
	if !denied && d.onTarget {
		g, denied = d.Permissions.denies(d.named(d.Target.Host))
	}
	if denied {
		return d.denyGrant(g)
	}
	return nil
}

// decideGuard returns the error of the guard for a dial to the target. It returns nil if the permissions
// allow the dial anyway. addr is not set before the name has been looked up.
func (d *dial) decideGuard(host string, addr netip.Addr) error {
	if d.Guard == nil || !d.onTarget || d.Permissions.allows(d.Capability, d.Dial) {
		return nil
	}
	err := d.Guard(host, netip.Addr{}, "")
	if err == nil && addr.IsValid() {
		err = d.Guard("", addr, "")
	}
	if err != nil {
		return d.denyf("%v", err)
	}
	return nil
}

func (d *dial) denyGrant(g plugin.Grant) error {
	return d.denyf("the grant %q denies %s", g, d.Addr)
}

// alias is a denied name and the grant that denies it.
type alias struct {
	name  string
	grant plugin.Grant
}

// aliases returns the denied names whose addresses must not be dialled, including the target's name if
// it is denied. Each has a grant that matches the rest of the dial.
func (d *dial) aliases() (all []alias) {
	names := d.Permissions.deniedNames()
	if _, literal := parseLiteral(d.Target.Host); d.Target.Host != "" && !literal {
		names = append(names, d.Target.Host)
	}
	for _, name := range names {
		if g, denied := d.Permissions.denies(d.named(name)); denied {
			all = append(all, alias{name, g})
		}
	}
	return all
}

// decideClass returns an error if the class of the address is refused. Addresses that belong to no
// host are always refused. Link-local, metadata and loopback addresses are refused unless a grant spells
// them out. Loopback addresses are also allowed for a target on loopback, for a name of the operator's own
// targets, and for ports that the pod declares.
func (d *dial) decideClass() error {
	spelledOut := d.Permissions.spellsOut(d.Dial)
	for _, form := range netaddr.Forms(d.Addr) {
		switch class := netaddr.ClassOf(form); {
		case class == netaddr.NoHost:
			return d.denyf("%s is not the address of a host", d.Addr)
		case class == netaddr.Metadata && !spelledOut:
			return d.denyf("%s is a link-local or metadata address", d.Addr)
		case class == netaddr.Loopback && !spelledOut && !d.isOwnLoopback(form):
			return d.denyf("%s is a loopback address, and neither a declared port of the pod nor named by a grant", d.Addr)
		}
	}
	return nil
}

// isOwnLoopback reports whether a loopback address is the target's, or the pod's own with a declared
// port. In the pod's network namespace, all loopback addresses are its own.
func (d *dial) isOwnLoopback(addr netip.Addr) bool {
	if d.Elsewhere && d.isDeclared() {
		return true
	}
	own, ok := parseLiteral(d.PodIP)
	if ok && (own == addr && d.isDeclared() || d.onTarget && own.IsLoopback()) {
		return true
	}
	target, ok := parseLiteral(d.Target.Host)
	return d.onTarget && (ok && target.IsLoopback() || sameName(d.Target.Host, "localhost") || !ok && d.OwnName != nil && d.OwnName(d.Target.Host))
}

// undecided returns err, the refusal of the dial's address. It marks the error if the name of the target led to a
// loopback address.
func (d *dial) undecided(err error) error {
	denied, ok := errors.AsType[*Denied](err)
	if !ok || !d.onTarget || netaddr.Nearest(d.Addr) != netaddr.Loopback {
		return err
	}
	if _, literal := parseLiteral(d.Target.Host); literal {
		return err
	}
	return &Denied{denied.text + "; only a target that prober.yaml lists may have such a name", true}
}

// isDeclared reports whether a container of the pod declares the port of the dial.
func (d *dial) isDeclared() bool {
	protocol := "TCP"
	if d.Scheme == "udp" {
		protocol = "UDP"
	}
	matches := func(p probe.Port) bool {
		return p.Number == int(d.Port) && cmp.Or(p.Protocol, "TCP") == protocol
	}
	return d.Pod != nil && slices.ContainsFunc(d.Pod.Ports, matches) ||
		d.Container != nil && slices.ContainsFunc(d.Container.Ports, matches)
}

// named returns the dial with another name.
func (d *dial) named(name string) plugin.Dial {
	to := d.Dial
	to.Name = CanonicalName(name)
	return to
}

// CheckLookUp returns a *[Denied] if a name may not be looked up by prober_v1_dns.
func (p *Permissions) CheckLookUp(name string) error {
	if !p.mayLookUp(name) {
		return denyf("dns: denied: look-ups of %q are not both requested by the plugin and granted", name)
	}
	return nil
}

// CheckHost returns a *[Denied] if an HTTP request to the endpoint may not have that Host header.
// Only requests to the target may have a host that differs from the URL's.
func (e *Endpoint) CheckHost(host, urlHost string) error {
	if host != "" && host != urlHost && !e.OnTarget {
		return denyf("denied: the Host %.80q is not that of the URL, which is allowed for the probe's target only", host)
	}
	return nil
}
