package plugintest

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// needsGuest says what of the case only a guest can be shown, or "". A process that asks
// its guide can be shown more than one that dials, looks up and secures by itself.
func (c *Case) needsGuest(guided bool) string {
	switch reason := c.NeedsSandbox(); {
	case reason != "":
		return "a process is in no sandbox: " + reason
	case len(c.Zone) > 0 && !guided:
		return "this process looks names up by itself"
	}
	n := newNetwork(c, nil, nil)
	for _, p := range n.peers {
		if reason := n.needsGuest(c, p, guided); reason != "" {
			return n.line(p.Line) + ": " + reason
		}
	}
	for _, x := range n.web {
		if reason := n.needsWebGuest(c, x, guided); reason != "" {
			return n.line(x.Line) + ": " + reason
		}
	}
	for _, z := range n.zone {
		if reason := n.needsZoneGuest(z); reason != "" {
			return n.line(z.Line) + ": " + reason
		}
	}
	return ""
}

const openOrNot = "a port of loopback is either open or not"

// needsGuest says why a process cannot be shown a peer, or "".
func (n *network) needsGuest(c *Case, p *peer, guided bool) string {
	_, target := n.target(c)
	switch {
	case p.addr != target && !guided:
		return p.Dial + " is not at the target, and this process dials by itself"
	case p.TLS != nil && !guided:
		return "this process does not know whom to trust, and makes its TLS by itself"
	case p.Latency >= c.Timeout:
		return "on loopback a connection is made at once"
	}
	for _, other := range n.peers {
		if other.network == p.network && other.addr == p.addr && closed(other.Behaviour) != closed(p.Behaviour) {
			return openOrNot
		}
	}
	return ""
}

// needsWebGuest says why a process cannot be shown an exchange, or "".
func (n *network) needsWebGuest(c *Case, x *exchange, guided bool) string {
	network, target := n.target(c)
	at, secured := n.webAt(x), n.shownBy(x)
	switch {
	case at == "" && network != "tcp":
		return "the target is no server of HTTP"
	case at != "" && at != target && !guided:
		return x.Match.URL.Source + " is not at the target, and this process dials by itself"
	case (x.TLS != nil || at != "" && secured != nil) && !guided:
		return "this process does not know whom to trust, and makes its TLS by itself"
	}
	for _, p := range n.peers {
		if p.network == "tcp" && p.addr == cmp.Or(at, target) {
			return "one port is of host.net or of host.http"
		}
	}
	for _, other := range n.web {
		if there := n.webAt(other); there != "" && at != "" && there != at {
			continue
		}
		if closed(other.Behaviour) != closed(x.Behaviour) {
			return openOrNot
		}
		if o := n.shownBy(other); o != nil && secured != nil && !reflect.DeepEqual(o, secured) {
			return "one port shows one certificate, before it is asked anything"
		}
	}
	return ""
}

// webAt is where an exchange takes place, as dials spell it; "" if that is anywhere.
func (n *network) webAt(x *exchange) string {
	u, err := url.Parse(x.Match.URL.Source)
	if err != nil || x.Match.URL.regex != nil || u.Host == "" {
		return ""
	}
	return n.at(u.Hostname(), portOf(u))
}

// shownBy is the certificate that an exchange has if it is one over TLS; nil if it cannot be.
func (n *network) shownBy(x *exchange) *TLS {
	if x.Match.URL.regex == nil && strings.HasPrefix(x.Match.URL.Source, "http://") {
		return nil
	}
	return cmp.Or(x.TLS, newTLS())
}

// needsZoneGuest says why a process cannot be shown a record, or "".
func (n *network) needsZoneGuest(z *zoneEntry) string {
	if z.Behaviour == ResetNow {
		return "a question over UDP is not reset"
	}
	for _, other := range n.zone {
		same := z.server == "" || other.server == "" || z.server == other.server
		if same && (other.Behaviour == Refuse) != (z.Behaviour == Refuse) {
			return openOrNot
		}
	}
	return ""
}

// target returns where the target of the case is, as dials spell it. A target that does
// not exist is nowhere.
func (n *network) target(c *Case) (network, addr string) {
	switch t := c.Target; {
	case t.Unix != "":
		return "unix", t.Unix
	case t.Port > 0 && n.name(t.Host).IsValid():
		return "tcp", n.at(t.Host, fmt.Sprint(t.Port))
	default:
		return "", ""
	}
}

// shows returns how whoever is at an address behaves; false if the case has nobody there.
func (n *network) shows(network, addr string) (Behaviour, bool) {
	for _, p := range n.peers {
		if p.network == network && p.addr == addr {
			return p.Behaviour, true
		}
	}
	if web := n.webOf(addr); len(web) > 0 && network == "tcp" {
		return web[0].Behaviour, true
	}
	if n.answers(network, addr) {
		if zone := n.zoneOf(addr); len(zone) > 0 {
			return closed(zone[0].Behaviour, Refuse), true
		}
		return "", true
	}
	return n.all, n.all != ""
}

// webOf returns the exchanges that may take place at an address.
func (n *network) webOf(addr string) (web []*exchange) {
	for _, x := range n.web {
		if at := n.webAt(x); at == "" || at == addr {
			web = append(web, x)
		}
	}
	return web
}

// zoneOf returns the records of a server.
func (n *network) zoneOf(addr string) (zone []*zoneEntry) {
	for _, z := range n.zone {
		if z.server == "" || z.server == addr {
			zone = append(zone, z)
		}
	}
	return zone
}

// closed is how whoever behaves so does not take connections, or "".
func closed(b Behaviour, ways ...Behaviour) Behaviour {
	if ways == nil {
		ways = []Behaviour{Refuse, Timeout}
	}
	if slices.Contains(ways, b) {
		return b
	}
	return ""
}
