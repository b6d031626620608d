package icmp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
)

// player plays the replies for one attempt.
type player struct {
	net        *peer.Network
	everywhere peer.Behaviour
	hosts      []*host

	mu sync.Mutex // guards how often hosts have answered
}

var _ peer.EchoPlayer = (*player)(nil)

// host is a [Reply] and how often it has answered.
type host struct {
	*Reply
	answered int
}

// Play implements [peer.Peers].
func (r *replies) Play(n *peer.Network) peer.Player {
	p := &player{net: n, everywhere: r.everywhere}
	for i := range r.list {
		n.Hosts.Addr(p.name(&r.list[i]))
		p.hosts = append(p.hosts, &host{Reply: &r.list[i]})
	}
	return p
}

// name returns the name or address of a host.
func (p *player) name(r *Reply) string {
	if r.Host == "" {
		return p.net.Target.Host
	}
	return r.Host
}

// hasAddr reports whether a host has an address.
func (p *player) hasAddr(r *Reply, addr netip.Addr) bool {
	name := p.name(r)
	if literal, err := netip.ParseAddr(name); err == nil {
		return literal.Unmap() == addr
	}
	addrs, _ := p.net.Hosts.Addrs(name)
	return slices.Contains(addrs, addr)
}

// Echo implements [peer.EchoPlayer].
func (p *player) Echo(ctx context.Context, r wasm.EchoRequest) (wasm.EchoReply, error) {
	answer := p.find(r.Addr)
	switch {
	case answer == nil && p.everywhere != "":
		p.net.Contact()
		answer = &Reply{Behaviour: p.everywhere}
		if p.everywhere != peer.Refuse {
			answer.Behaviour = peer.Timeout
		}
	case answer == nil:
		name, _, _ := net.SplitHostPort(p.net.Hosts.Name(netip.AddrPortFrom(r.Addr, 0).String()))
		p.net.Faultf("the plugin sends an echo request to %s, for which host.icmp has no reply", name)
		answer = &Reply{Behaviour: peer.Refuse}
	default:
		p.check(answer, r)
	}
	latency := answer.Latency
	if answer.Behaviour == peer.Timeout {
		latency = -1
	}
	if latency != 0 {
		p.net.Clock.Wait(ctx, nil, latency)
	}
	switch {
	case ctx.Err() != nil:
		return wasm.EchoReply{}, &noReplyError{ctx.Err()}
	case answer.Behaviour == peer.Refuse:
		return wasm.EchoReply{}, &refused{r.Addr.String() + " says: port unreachable"}
	case answer.Error != "":
		return wasm.EchoReply{}, &refused{answer.Error}
	}
	local := r.Source
	if !local.IsValid() && r.Addr.Is4() {
		local = netip.MustParseAddrPort(peer.LocalAddr).Addr()
	}
	return wasm.EchoReply{Local: local, Payload: r.Payload, HopLimit: answer.HopLimit, RTT: answer.Latency}, nil
}

// noReplyError is the error of a request that was not answered in time.
type noReplyError struct{ ended error }

func (e *noReplyError) Error() string { return "no reply in time" }

func (e *noReplyError) Unwrap() error { return e.ended }

// find returns the next reply of the host at addr, or nil.
func (p *player) find(addr netip.Addr) *Reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found *host
	for _, h := range p.hosts {
		if !p.hasAddr(h.Reply, addr) {
			continue
		}
		if found = h; h.answered == 0 {
			break
		}
	}
	if found == nil {
		return nil
	}
	found.answered++
	return found.Reply
}

// check adds a failure unless the request matches the case.
func (p *player) check(answer *Reply, r wasm.EchoRequest) {
	var wrong []string
	differ := func(name string, got, want any, wanted bool) {
		if wanted && got != want {
			wrong = append(wrong, fmt.Sprintf("%s: got %v, want %v", name, got, want))
		}
	}
	w := &answer.Request
	differ("payload", r.Payload, w.Payload, w.Payload > 0)
	differ("hopLimit", r.HopLimit, w.HopLimit, w.HopLimit > 0)
	differ("sourceAddress", r.Source, w.SourceAddress, w.SourceAddress.IsValid())
	if w.DontFragment != nil {
		differ("dontFragment", r.DontFragment, *w.DontFragment, true)
	}
	if len(wrong) > 0 {
		p.net.Faultf("%s: the echo request has %s", p.net.Line(answer.Line), strings.Join(wrong, "; "))
	}
}

// Dial implements [peer.Player]: nothing is dialled.
func (*player) Dial(context.Context, string, string) (net.Conn, bool, error) { return nil, false, nil }

// Unused implements [peer.Player].
func (p *player) Unused() (failures []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hosts {
		if h.answered == 0 {
			failures = append(failures, fmt.Sprintf("%s: no echo request goes to %s", p.net.Line(h.Line), p.name(h.Reply)))
		}
	}
	return failures
}

// States implements [peer.Player].
func (*player) States() []string { return nil }

// At implements [peer.Player].
func (*player) At(string, string) (peer.Behaviour, bool) { return "", false }

// MarkUsed implements [peer.Player].
func (*player) MarkUsed(string, string) {}

// Unservable implements [peer.Player].
func (p *player) Unservable(bool) string {
	if len(p.hosts) > 0 {
		return "a process sends echo requests by itself"
	}
	return ""
}
