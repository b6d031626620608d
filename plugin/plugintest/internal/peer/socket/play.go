package socket

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/expr"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
)

// player plays the servers for one attempt.
type player struct {
	net        *peer.Network
	everywhere peer.Behaviour
	servers    []*server
	programs   *programs

	mu sync.Mutex // guards the connections of servers
}

var _ peer.Player = (*player)(nil)

// server is a [Server] and its connections.
type server struct {
	*Server
	network, addr string // arguments of a dial
	conns         []*conn
}

// Play implements [peer.Peers].
func (s *servers) Play(n *peer.Network) peer.Player {
	p := &player{net: n, everywhere: s.everywhere, programs: newPrograms()}
	for i := range s.list {
		played := &server{Server: &s.list[i]}
		played.network, played.addr = endpoint(n.Hosts, played.Dial)
		p.servers = append(p.servers, played)
	}
	return p
}

// endpoint returns the network and address to dial for a URL of a test file.
func endpoint(h *peer.Hosts, rawURL string) (network, addr string) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme == "unix" {
		return "unix", strings.TrimPrefix(rawURL, "unix://")
	}
	if u.Scheme == "tls" {
		u.Scheme = "tcp"
	}
	return u.Scheme, h.HostPort(u.Hostname(), u.Port())
}

func isTLS(rawURL string) bool { return strings.HasPrefix(rawURL, "tls:") }

// Dial implements [peer.Player].
func (p *player) Dial(ctx context.Context, network, addr string) (net.Conn, bool, error) {
	c := p.connect(network, addr)
	if c == nil && p.everywhere != "" {
		p.net.Contact()
		c = p.newConn(&server{Server: &Server{Behaviour: p.everywhere, TLS: cert.Valid()}, network: network, addr: addr})
	}
	if c == nil {
		return nil, false, nil
	}
	if err := p.net.Delay(ctx, network, addr, c.server.Behaviour, c.server.Latency); err != nil {
		return nil, true, err
	}
	if c.server.Program == nil {
		c.start()
	} else if err := c.launch(ctx); err != nil {
		return nil, true, err
	}
	return c, true, nil
}

// connect returns a connection to the server at addr with the fewest connections; nil for none.
func (p *player) connect(network, addr string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found *server
	for _, s := range p.servers {
		if s.network != network || s.addr != addr {
			continue
		}
		if found = s; len(s.conns) == 0 {
			break
		}
	}
	if found == nil {
		return nil
	}
	c := p.newConn(found)
	found.conns = append(found.conns, c)
	return c
}

// move gives a connection to another server at the same address that expects its first bytes and has
// no connection yet. It reports whether there is such a server. It allows connections to come in any
// order.
func (p *player) move(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		if s.network != c.server.network || s.addr != c.server.addr || len(s.conns) > 0 || !s.begins(c.out, &expr.Env{Now: p.net.Clock.Now()}) {
			continue
		}
		c.server.conns = slices.DeleteFunc(c.server.conns, func(o *conn) bool { return o == c })
		s.conns = append(s.conns, c)
		c.server = s
		return true
	}
	return false
}

// connections returns a copy of the connections of each server.
func (p *player) connections() [][]*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([][]*conn, len(p.servers))
	for i, s := range p.servers {
		all[i] = slices.Clone(s.conns)
	}
	return all
}

// Unused implements [peer.Player].
func (p *player) Unused() (failures []string) {
	for i, conns := range p.connections() {
		s := p.servers[i]
		if len(conns) == 0 {
			failures = append(failures, fmt.Sprintf("%s: %s is never dialled", p.net.Line(s.Line), s.Dial))
		}
		for _, c := range conns {
			if step, got := c.waitsFor(); step != nil {
				failures = append(failures, fmt.Sprintf("%s: %s still waits for %v; got %s", p.net.Line(step.Line), s.Dial, step, got))
			}
		}
	}
	return failures
}

// States implements [peer.Player].
func (p *player) States() (states []string) {
	for i, conns := range p.connections() {
		s := p.servers[i]
		for _, c := range conns {
			states = append(states, fmt.Sprintf("%s (%s): %s", s.Dial, p.net.Line(s.Line), c.state()))
		}
	}
	return states
}

// At implements [peer.Player].
func (p *player) At(network, addr string) (peer.Behaviour, bool) {
	for _, s := range p.servers {
		if s.network == network && s.addr == addr {
			return s.Behaviour, true
		}
	}
	return p.everywhere, p.everywhere != ""
}

// MarkUsed implements [peer.Player].
func (p *player) MarkUsed(network, addr string) {
	for _, s := range p.servers {
		if s.network == network && s.addr == addr {
			p.connect(network, addr)
		}
	}
}

// Unservable implements [peer.Player].
func (p *player) Unservable(guided bool) string {
	for _, s := range p.servers {
		if reason := p.unservable(s, guided); reason != "" {
			return p.net.Line(s.Line) + ": " + reason
		}
	}
	return ""
}

func (p *player) unservable(s *server, guided bool) string {
	_, target := p.net.TargetAddr()
	switch {
	case s.addr != target && !guided:
		return s.Dial + peer.DialsByItself
	case s.TLS != nil && !guided:
		return peer.OwnTLS
	case s.Latency >= p.net.Timeout:
		return "on loopback a connection is made at once"
	}
	for _, other := range p.servers {
		if other.network == s.network && other.addr == s.addr && other.Behaviour.Closed() != s.Behaviour.Closed() {
			return peer.OpenOrNot
		}
	}
	return ""
}
