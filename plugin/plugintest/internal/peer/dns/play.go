package dns

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
)

// player plays the records for one attempt.
type player struct {
	net        *peer.Network
	everywhere peer.Behaviour
	records    []*record
	servers    map[string]bool // addresses of the servers that records name

	mu sync.Mutex // guards how often records have answered
}

var _ peer.Player = (*player)(nil)

// record is a [Record] and how often it has answered.
type record struct {
	*Record
	server   string // IP:PORT; "" for any
	answered int
}

// Play implements [peer.Peers].
func (r *records) Play(n *peer.Network) peer.Player {
	p := &player{net: n, everywhere: r.everywhere, servers: map[string]bool{peer.DNSServer: true}}
	for i := range r.list {
		played := &record{Record: &r.list[i]}
		host, port := n.Target.Host, strconv.Itoa(n.Target.Port)
		if played.Server != "" && played.Server != "target" {
			host, port, _ = net.SplitHostPort(played.Server)
		}
		if played.Server != "" {
			played.server = n.Hosts.HostPort(host, port)
			p.servers[played.server] = true
		}
		p.records = append(p.records, played)
	}
	return p
}

// Names implements [peer.Peers]. A host without addresses gets the addresses in its first record for
// each question.
func (r *records) Names(h *peer.Hosts) {
	asked := make(map[string]bool)
	found := make(map[string][]netip.Addr)
	for i := range r.list {
		one := &r.list[i]
		host := peer.Canonical(one.Name)
		question := typeName(one.Type) + " " + host
		own, _ := h.Addrs(host)
		if own == nil && !asked[question] && (one.Type == dnsmessage.TypeA || one.Type == dnsmessage.TypeAAAA) {
			asked[question] = true
			found[host] = append(found[host], addresses(one.Answers)...)
		}
	}
	for host, addrs := range found {
		h.Add(host, addrs...)
	}
}

func addresses(answers []dnsmessage.Resource) (addrs []netip.Addr) {
	for _, a := range answers {
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			addrs = append(addrs, netip.AddrFrom4(body.A))
		case *dnsmessage.AAAAResource:
			addrs = append(addrs, netip.AddrFrom16(body.AAAA))
		}
	}
	return addrs
}

// isServer reports whether a DNS server is at an address.
func (p *player) isServer(network, addr string) bool {
	known := p.servers[addr] || len(p.records) > 0 && strings.HasSuffix(addr, ":53")
	return known && (network == "udp" || network == "tcp")
}

// Dial implements [peer.Player].
func (p *player) Dial(_ context.Context, network, addr string) (net.Conn, bool, error) {
	if !p.isServer(network, addr) {
		return nil, false, nil
	}
	c := &conn{player: p, addr: peer.Addr{Net: network, Address: addr}}
	c.Datagrams, c.Deadlines = network == "udp", p.net.RealTime
	return c, true, nil
}

// conn is a connection to a server.
type conn struct {
	peer.Buffer
	player *player
	addr   peer.Addr

	mu  sync.Mutex
	out []byte // TCP only: the start of a question
}

var _ net.Conn = (*conn)(nil)

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Buffer.Read(p)
	if err == syscall.ECONNREFUSED || err == syscall.ECONNRESET {
		err = peer.OpError("read", c.addr.Net, c.addr.Address, err)
	}
	return n, err
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	if c.player.net.Over() {
		return 0, peer.OpError("write", c.addr.Net, c.addr.Address, os.ErrDeadlineExceeded)
	}
	if err := c.WriteErr(); err != nil {
		return 0, err
	}
	if c.addr.Net == "udp" {
		c.answer(p)
		return len(p), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.out = append(c.out, p...); len(c.out) >= 2; {
		end := 2 + int(binary.BigEndian.Uint16(c.out))
		if len(c.out) < end {
			break
		}
		c.answer(c.out[2:end])
		c.out = c.out[end:]
	}
	return len(p), nil
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return peer.Addr{Net: c.addr.Net, Address: peer.LocalAddr} }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return c.addr }

// answer makes the answer to a question arrive.
func (c *conn) answer(packed []byte) {
	p := c.player
	var parser dnsmessage.Parser
	header, err := parser.Start(packed)
	var asked dnsmessage.Question
	if err == nil {
		asked, err = parser.Question()
	}
	if err != nil || header.Response {
		p.net.Faultf("what the plugin sends to the DNS server %s is not a question: %s", c.addr.Address, field.Quote(packed))
		return
	}
	r := p.find(c.addr.Address, asked)
	at := p.net.Clock.Now().Add(r.Latency)
	var data []byte
	switch r.Behaviour {
	case peer.Timeout, peer.HalfOpen:
		return
	case peer.Refuse:
		p.net.Clock.At(at, func() { c.Arrive(nil, syscall.ECONNREFUSED) })
		return
	case peer.Reset:
		p.net.Clock.At(at, func() { c.Arrive(nil, syscall.ECONNRESET) })
		return
	case peer.Garbage:
		data = p.net.Garbage()
	default:
		if data, err = r.pack(header.ID, asked, r.Behaviour == Truncate && c.addr.Net == "udp"); err != nil {
			p.net.Faultf("%s: %v", p.net.Line(r.Line), err)
			return
		}
	}
	if c.addr.Net == "tcp" {
		data = append(binary.BigEndian.AppendUint16(nil, uint16(len(data))), data...)
	}
	p.net.Clock.At(at, func() { c.Arrive(data, nil) })
}

// pack returns the answer in wire format.
func (r *Record) pack(id uint16, asked dnsmessage.Question, truncated bool) ([]byte, error) {
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, Response: true, RecursionDesired: true, RecursionAvailable: true, RCode: r.RCode, Truncated: truncated},
		Questions: []dnsmessage.Question{asked},
	}
	if !truncated {
		m.Answers = r.Answers
	}
	return m.Pack()
}

// find returns the record that answers a question at a server. If a name has no record, find makes
// one from its addresses. If it has no addresses either, the case fails and the answer is NXDOMAIN.
func (p *player) find(server string, asked dnsmessage.Question) *Record {
	host := peer.Canonical(asked.Name.String())
	found, known := p.recordFor(server, host, asked.Type)
	addrs, named := p.net.Hosts.Addrs(host)
	switch {
	case found != nil:
		return found
	case !known && named:
		return ofAddresses(asked, addrs)
	case p.everywhere != "":
		p.net.Contact()
		return &Record{Behaviour: p.everywhere}
	}
	p.net.Faultf("the plugin looks up %s %s, for which host.dns has no record", typeName(asked.Type), host)
	return &Record{RCode: dnsmessage.RCodeNameError}
}

// recordFor returns the next record for a question, or nil, and whether the name has records.
func (p *player) recordFor(server, host string, t dnsmessage.Type) (_ *Record, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found *record
	for _, r := range p.records {
		if peer.Canonical(r.Name) != host || r.server != "" && r.server != server {
			continue
		}
		known = true
		if r.Type != t {
			continue
		}
		if found = r; r.answered == 0 {
			break
		}
	}
	if found == nil {
		return nil, known
	}
	found.answered++
	return found.Record, true
}

// ofAddresses returns a record with the addresses of a question's name.
func ofAddresses(asked dnsmessage.Question, addrs []netip.Addr) *Record {
	r := &Record{}
	if len(addrs) == 0 {
		r.RCode = dnsmessage.RCodeNameError
	}
	for _, addr := range addrs {
		head := dnsmessage.ResourceHeader{Name: asked.Name, Class: dnsmessage.ClassINET, TTL: defaultTTL}
		switch {
		case addr.Is4() && asked.Type == dnsmessage.TypeA:
			r.Answers = append(r.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && asked.Type == dnsmessage.TypeAAAA:
			r.Answers = append(r.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return r
}

// Unused implements [peer.Player]. A name that was resolved for a dial counts as used.
func (p *player) Unused() (failures []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.records {
		if r.answered == 0 && !p.net.LookedUp(r.Name) {
			failures = append(failures, fmt.Sprintf("%s: nothing looks up %s %s", p.net.Line(r.Line), typeName(r.Type), r.Name))
		}
	}
	return failures
}

// States implements [peer.Player].
func (*player) States() []string { return nil }

// At implements [peer.Player].
func (p *player) At(network, addr string) (peer.Behaviour, bool) {
	if !p.isServer(network, addr) {
		return "", false
	}
	if at := p.recordsAt(addr); len(at) > 0 && at[0].Behaviour == peer.Refuse {
		return peer.Refuse, true
	}
	return "", true
}

// recordsAt returns the records of the server at addr.
func (p *player) recordsAt(addr string) (at []*record) {
	for _, r := range p.records {
		if r.server == "" || r.server == addr {
			at = append(at, r)
		}
	}
	return at
}

// MarkUsed implements [peer.Player]: a server that refuses does so for all of its records.
func (p *player) MarkUsed(_, addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.recordsAt(addr) {
		if r.Behaviour == peer.Refuse {
			r.answered++
		}
	}
}

// Unservable implements [peer.Player].
func (p *player) Unservable(guided bool) string {
	if len(p.records) > 0 && !guided {
		return "this process looks names up by itself"
	}
	for _, r := range p.records {
		if reason := p.unservable(r); reason != "" {
			return p.net.Line(r.Line) + ": " + reason
		}
	}
	return ""
}

func (p *player) unservable(r *record) string {
	if r.Behaviour == peer.Reset {
		return "a question over UDP is not reset"
	}
	for _, other := range p.records {
		same := r.server == "" || other.server == "" || r.server == other.server
		if same && (other.Behaviour == peer.Refuse) != (r.Behaviour == peer.Refuse) {
			return peer.OpenOrNot
		}
	}
	return ""
}
