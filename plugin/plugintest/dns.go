package plugintest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsServer is the one server that look-ups go to which name none.
const dnsServer = "10.99.255.53:53"

// Truncate is a behaviour of a [Record]: over UDP the answer does not fit, and has to be
// asked for again over TCP.
const Truncate Behaviour = "truncate"

// Record is what servers of DNS answer to one question. Of several records for one
// question each answers once, and the last one from then on.
type Record struct {
	Line      int
	Name      string
	Type      dnsmessage.Type
	Server    string // that alone answers so: "target", or host:port; "" for every one
	RCode     dnsmessage.RCode
	Answers   []dnsmessage.Resource
	Latency   time.Duration
	Behaviour Behaviour // in place of an answer
}

// zoneEntry is a [Record] and what became of it.
type zoneEntry struct {
	*Record
	server   string // as dials spell it; "" for any
	answered int    // guarded by the network's mu
}

// addZone puts the records on their servers, and gives names the addresses of theirs.
func (n *network) addZone(c *Case) {
	seen := maps.Clone(n.names) // of host.names, and one for each question
	for i := range c.Zone {
		r := &c.Zone[i]
		host := canonical(r.Name)
		question := typeName(r.Type) + " " + host
		if seen[host] == nil && seen[question] == nil && (r.Type == dnsmessage.TypeA || r.Type == dnsmessage.TypeAAAA) {
			seen[question] = []netip.Addr{}
			n.names[host] = append(n.names[host], addresses(r.Answers)...)
		}
	}
	for i := range c.Zone {
		z := &zoneEntry{Record: &c.Zone[i]}
		host, port := c.Target.Host, strconv.Itoa(c.Target.Port)
		if z.Server != "" && z.Server != "target" {
			host, port, _ = net.SplitHostPort(z.Server)
		}
		if z.Server != "" {
			z.server = n.at(host, port)
			n.asked[z.server] = true
		}
		n.zone = append(n.zone, z)
	}
}

func (n *network) at(host, port string) string {
	return net.JoinHostPort(n.name(host).String(), port)
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

// query is a connection to a server of DNS.
type query struct {
	inbox
	host *network
	addr address

	asking sync.Mutex
	out    []byte // of TCP: what is not yet a whole question
}

var _ net.Conn = (*query)(nil)

func (n *network) newQuery(network, addr string) *query {
	q := &query{host: n, addr: address{network, addr}}
	q.datagrams, q.deadlines = network == "udp", n.native
	return q
}

// Read implements [net.Conn].
func (q *query) Read(p []byte) (int, error) {
	n, err := q.inbox.Read(p)
	if err == syscall.ECONNREFUSED || err == syscall.ECONNRESET {
		err = opError("read", q.addr.network, q.addr.addr, err)
	}
	return n, err
}

// Write implements [net.Conn].
func (q *query) Write(p []byte) (int, error) {
	if q.host.over() {
		return 0, opError("write", q.addr.network, q.addr.addr, os.ErrDeadlineExceeded)
	}
	if err := q.failed(); err != nil {
		return 0, err
	}
	if q.addr.network == "udp" {
		q.answer(p)
		return len(p), nil
	}
	q.asking.Lock()
	defer q.asking.Unlock()
	for q.out = append(q.out, p...); len(q.out) >= 2; {
		end := 2 + int(binary.BigEndian.Uint16(q.out))
		if len(q.out) < end {
			break
		}
		q.answer(q.out[2:end])
		q.out = q.out[end:]
	}
	return len(p), nil
}

// answer has the answer to a question arrive.
func (q *query) answer(packed []byte) {
	var p dnsmessage.Parser
	header, err := p.Start(packed)
	var asked dnsmessage.Question
	if err == nil {
		asked, err = p.Question()
	}
	if err != nil || header.Response {
		q.host.fault("what the plugin sends to the DNS server %s is no question: %s", q.addr.addr, quote(packed))
		return
	}
	r := q.host.recordFor(q.addr.addr, asked)
	if r == nil && q.host.all != "" {
		r = &Record{Behaviour: q.host.meet().Behaviour}
	}
	if r == nil {
		q.host.fault("the plugin looks up %s %s, of which host.dns says nothing", typeName(asked.Type), canonical(asked.Name.String()))
		r = &Record{RCode: dnsmessage.RCodeNameError}
	}
	at := q.host.clock.Now().Add(r.Latency)
	var data []byte
	switch r.Behaviour {
	case Timeout, HalfOpen:
		return
	case Refuse, ResetNow:
		gone := map[Behaviour]error{Refuse: syscall.ECONNREFUSED, ResetNow: syscall.ECONNRESET}[r.Behaviour]
		q.host.clock.at(at, func() { q.arrive(nil, gone) })
		return
	case Garbage:
		data = q.host.junk()
	default:
		if data, err = r.pack(header.ID, asked, r.Behaviour == Truncate && q.addr.network == "udp"); err != nil {
			q.host.fault("%s: %v", q.host.line(r.Line), err)
			return
		}
	}
	if q.addr.network == "tcp" {
		data = append(binary.BigEndian.AppendUint16(nil, uint16(len(data))), data...)
	}
	q.host.clock.at(at, func() { q.arrive(data, nil) })
}

// pack returns the answer as it goes over the wire.
func (r *Record) pack(id uint16, asked dnsmessage.Question, cut bool) ([]byte, error) {
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, Response: true, RecursionDesired: true, RecursionAvailable: true, RCode: r.RCode, Truncated: cut},
		Questions: []dnsmessage.Question{asked},
	}
	if !cut {
		m.Answers = r.Answers
	}
	return m.Pack()
}

// recordFor returns the record that answers a question at a server. Names that have
// addresses, and no record at all, are answered with those.
func (n *network) recordFor(server string, asked dnsmessage.Question) *Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	host := canonical(asked.Name.String())
	var found *zoneEntry
	known := false
	for _, z := range n.zone {
		if canonical(z.Name) != host || z.server != "" && z.server != server {
			continue
		}
		known = true
		if z.Type != asked.Type {
			continue
		}
		if found = z; z.answered == 0 {
			break
		}
	}
	if found != nil {
		found.answered++
		return found.Record
	}
	addrs, named := n.names[host]
	if known || !named {
		return nil
	}
	return recordOf(asked, addrs)
}

const defaultTTL = 60

// recordOf answers with the addresses of a name.
func recordOf(asked dnsmessage.Question, addrs []netip.Addr) *Record {
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

// LocalAddr implements [net.Conn].
func (q *query) LocalAddr() net.Addr { return address{q.addr.network, "10.99.255.1:40000"} }

// RemoteAddr implements [net.Conn].
func (q *query) RemoteAddr() net.Addr { return q.addr }

// leftZone says which records nobody asked for.
func (n *network) leftZone() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var left []string
	for _, z := range n.zone {
		if z.answered == 0 && !n.looked[canonical(z.Name)] {
			left = append(left, fmt.Sprintf("%s: nobody looks up %s %s", n.line(z.Line), typeName(z.Type), z.Name))
		}
	}
	return left
}

// The types of records and the codes of answers, by their names.
var (
	recordTypes = map[string]dnsmessage.Type{
		"A": dnsmessage.TypeA, "AAAA": dnsmessage.TypeAAAA, "CNAME": dnsmessage.TypeCNAME, "MX": dnsmessage.TypeMX, "NS": dnsmessage.TypeNS,
		"PTR": dnsmessage.TypePTR, "SOA": dnsmessage.TypeSOA, "SRV": dnsmessage.TypeSRV, "TXT": dnsmessage.TypeTXT,
	}
	rcodes = map[string]dnsmessage.RCode{
		"NOERROR": dnsmessage.RCodeSuccess, "FORMERR": dnsmessage.RCodeFormatError, "SERVFAIL": dnsmessage.RCodeServerFailure,
		"NXDOMAIN": dnsmessage.RCodeNameError, "NOTIMP": dnsmessage.RCodeNotImplemented, "REFUSED": dnsmessage.RCodeRefused,
	}
)

func typeName(t dnsmessage.Type) string {
	for name, known := range recordTypes {
		if known == t {
			return name
		}
	}
	return t.String()
}

func rcodeName(c dnsmessage.RCode) string {
	for name, known := range rcodes {
		if known == c {
			return name
		}
	}
	return c.String()
}

// domain reads a name, which is absolute whether it says so or not.
func domain(text string) (dnsmessage.Name, error) {
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return dnsmessage.NewName(text)
}

const maxString = 255 // bytes of one string of a TXT record

// resource reads the data of a record as a zone file spells it.
func resource(t dnsmessage.Type, data string) (dnsmessage.ResourceBody, error) {
	fields := strings.Fields(data)
	want := map[dnsmessage.Type]int{dnsmessage.TypeMX: 2, dnsmessage.TypeSRV: 4, dnsmessage.TypeSOA: 7}[t]
	if want > 0 && len(fields) != want {
		return nil, fmt.Errorf("%.80q: want %d fields, as in a zone file", data, want)
	}
	switch t {
	case dnsmessage.TypeA, dnsmessage.TypeAAAA:
		addr, err := netip.ParseAddr(data)
		switch {
		case err != nil:
			return nil, err
		case addr.Is4() != (t == dnsmessage.TypeA):
			return nil, fmt.Errorf("%s is no address of the type %s", addr, typeName(t))
		case addr.Is4():
			return &dnsmessage.AResource{A: addr.As4()}, nil
		}
		return &dnsmessage.AAAAResource{AAAA: addr.As16()}, nil
	case dnsmessage.TypeTXT:
		r := &dnsmessage.TXTResource{}
		for part := range slices.Chunk([]byte(data), maxString) {
			r.TXT = append(r.TXT, string(part))
		}
		return r, nil
	case dnsmessage.TypeMX, dnsmessage.TypeSRV, dnsmessage.TypeSOA:
		return numbered(t, fields)
	}
	name, err := domain(data)
	switch t {
	case dnsmessage.TypeCNAME:
		return &dnsmessage.CNAMEResource{CNAME: name}, err
	case dnsmessage.TypeNS:
		return &dnsmessage.NSResource{NS: name}, err
	default:
		return &dnsmessage.PTRResource{PTR: name}, err
	}
}

// numbered reads records of names and numbers.
func numbered(t dnsmessage.Type, fields []string) (dnsmessage.ResourceBody, error) {
	var errs []error
	number := func(i, bits int) uint32 {
		n, err := strconv.ParseUint(fields[i], 10, bits)
		errs = append(errs, err)
		return uint32(n)
	}
	name := func(i int) dnsmessage.Name {
		n, err := domain(fields[i])
		errs = append(errs, err)
		return n
	}
	var body dnsmessage.ResourceBody
	switch t {
	case dnsmessage.TypeMX:
		body = &dnsmessage.MXResource{Pref: uint16(number(0, 16)), MX: name(1)}
	case dnsmessage.TypeSRV:
		body = &dnsmessage.SRVResource{Priority: uint16(number(0, 16)), Weight: uint16(number(1, 16)), Port: uint16(number(2, 16)), Target: name(3)}
	default:
		body = &dnsmessage.SOAResource{
			NS: name(0), MBox: name(1), Serial: number(2, 32), Refresh: number(3, 32),
			Retry: number(4, 32), Expire: number(5, 32), MinTTL: number(6, 32),
		}
	}
	return body, errors.Join(errs...)
}

// dataOf spells the data of a record as a zone file does.
func dataOf(body dnsmessage.ResourceBody) string {
	name := func(n dnsmessage.Name) string { return strings.TrimSuffix(n.String(), ".") }
	switch b := body.(type) {
	case *dnsmessage.AResource:
		return net.IP(b.A[:]).String()
	case *dnsmessage.AAAAResource:
		return net.IP(b.AAAA[:]).String()
	case *dnsmessage.CNAMEResource:
		return name(b.CNAME)
	case *dnsmessage.NSResource:
		return name(b.NS)
	case *dnsmessage.PTRResource:
		return name(b.PTR)
	case *dnsmessage.MXResource:
		return fmt.Sprintf("%d %s", b.Pref, name(b.MX))
	case *dnsmessage.SRVResource:
		return fmt.Sprintf("%d %d %d %s", b.Priority, b.Weight, b.Port, name(b.Target))
	case *dnsmessage.TXTResource:
		return strings.Join(b.TXT, "")
	case *dnsmessage.SOAResource:
		return fmt.Sprintf("%s %s %d %d %d %d %d", name(b.NS), name(b.MBox), b.Serial, b.Refresh, b.Retry, b.Expire, b.MinTTL)
	default:
		return ""
	}
}
