package guest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/dnswire"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// lookup is one question of a guest. It queries its servers in turn, repeatedly, until one answers.
// Each turn has a share of the remaining time.
type lookup struct {
	call     *Call
	question dnswire.Question
	text     string // the question, for messages
	began    time.Time
	until    time.Time // the deadline; zero means none
	servers  []*dnsServer
	turns    int       // number of turns so far
	next     time.Time // when the next turn begins

	spare *dnswire.Answer // an answer with an error code, if no better one comes
	from  string          // the server of the spare answer
	rcode int
	doc   []byte // the answer
	err   error  // why there is no answer
}

// serversAt returns servers for addrs. named is the name that the guest gave; "" means the host's own
// servers.
func (l *lookup) serversAt(addrs []string, named string) (servers []*dnsServer) {
	for _, addr := range addrs[:min(len(addrs), maxDNSServers)] {
		servers = append(servers, &dnsServer{lookup: l, addr: addr, host: named})
	}
	return servers
}

// serverList returns the addresses of the servers, for messages.
func (l *lookup) serverList() string {
	addrs := make([]string, len(l.servers))
	for i, s := range l.servers {
		addrs[i] = s.addr
	}
	return strings.Join(addrs, ", ")
}

func (l *lookup) done() bool { return l.doc != nil || l.err != nil }

// due returns when advance must be called at the latest.
func (l *lookup) due() time.Time {
	if !l.until.IsZero() && l.until.Before(l.next) {
		return l.until
	}
	return l.next
}

// advance reads the answers of the servers, and queries the next server when its turn has come. It
// blocks only while it dials.
func (l *lookup) advance(ctx context.Context) {
	for !l.done() {
		for _, s := range l.servers {
			s.receive(ctx)
		}
		now := l.call.host.Clock.Now()
		switch {
		case l.done():
		case !l.until.IsZero() && !now.Before(l.until):
			l.fail(&limit{errno: abi.ETIMEDOUT, text: "no answer in time"})
		case l.live() == 0:
			l.fail(cmp.Or(l.servers[0].err, dnswire.ErrStray))
		case now.Before(l.next) && l.current().err == nil:
			return
		default:
			l.askNext(ctx, now)
		}
	}
}

// live returns the number of servers that may still answer.
func (l *lookup) live() (n int) {
	for _, s := range l.servers {
		if s.err == nil {
			n++
		}
	}
	return n
}

// current returns the server whose turn it is.
func (l *lookup) current() *dnsServer { return l.servers[max(0, l.turns-1)%len(l.servers)] }

// askNext begins the turn of the next server.
func (l *lookup) askNext(ctx context.Context, now time.Time) {
	l.turns++
	for l.current().err != nil {
		l.turns++
	}
	l.next = now.Add(l.share(now))
	l.current().ask(ctx)
}

// share returns the length of the current turn. Each server gets two turns in the remaining time. A
// turn takes at most one second in the first round, and twice as long in each further one.
func (l *lookup) share(now time.Time) time.Duration {
	rounds := (l.turns - 1) / len(l.servers)
	most := time.Second << min(rounds, 5)
	if l.until.IsZero() {
		return most
	}
	left := l.until.Sub(now) / time.Duration(max(1, 2*len(l.servers)-l.turns+1))
	return max(time.Millisecond, min(left, most))
}

// fail ends the look-up with the spare answer, or else with an error.
func (l *lookup) fail(err error) {
	if l.spare != nil {
		l.succeed(l.from, *l.spare)
		return
	}
	l.err = fmt.Errorf("dns: %s: %w", l.text, err)
	l.close()
}

func (l *lookup) succeed(server string, a dnswire.Answer) {
	took := l.call.host.since(l.began)
	l.rcode = a.Code
	answer := abi.DNSAnswer{RCode: dnswire.CodeName(a.Code), Server: server, Took: took}
	for _, r := range a.Records {
		answer.Answers = append(answer.Answers, abi.DNSRecord(r))
	}
	l.doc = abi.Append(nil, &answer)
	l.call.Trace(probe.TraceEvent{
		Type: probe.TraceCall, Name: "dns", Duration: took,
		Detail: fmt.Sprintf("%s: %s, %d records from %s", l.text, answer.RCode, len(a.Records), server),
	})
	l.close()
}

func (l *lookup) close() {
	for _, s := range l.servers {
		s.close()
	}
}

// maxStrays is the number of messages from a server that may not match the question. It limits
// the guesses at the ID of an answer.
const maxStrays = 100

// dnsServer is a server of one look-up.
type dnsServer struct {
	lookup *lookup
	addr   string // an IP and a port
	host   string // as the guest named it; "" for the host's own
	handle int32  // of the connection; 0 means none
	tcp    bool   // queried over TCP
	plain  bool   // queried without EDNS
	strays int
	part   []byte // the received part of an answer over TCP
	err    error  // why it is not queried any more; nil while it is
}

// ask sends the question, unless an answer over TCP is awaited.
func (s *dnsServer) ask(ctx context.Context) {
	if s.tcp && s.handle != 0 {
		return
	}
	var err error
	if s.handle == 0 {
		err = s.dial(ctx)
	}
	if err == nil {
		msg := s.lookup.question.Pack(!s.plain)
		if s.tcp {
			msg = dnswire.Framed(msg)
		}
		_, err = s.conn().write(s.lookup.call.host.Clock, msg, abi.UntilDeadline)
	}
	if err != nil {
		s.giveUp(err)
	}
}

func (s *dnsServer) dial(ctx context.Context) error {
	l, cfg := s.lookup, s.lookup.call.host
	network := "udp"
	if s.tcp {
		network = "tcp"
		var cancel context.CancelFunc
		ctx, cancel = cfg.Clock.WithTimeout(ctx, l.share(cfg.Clock.Now()))
		defer cancel()
	}
	if s.host == "" { // the host's own server is reached in the host's network namespace
		ctx = netns.With(ctx, nil)
	}
	raw, err := cfg.DialContext(ctx, network, s.addr)
	if err != nil {
		return err
	}
	s.handle = l.call.dns.net.add(l.call.ctx, &conn{Conn: raw, network: network, host: s.host})
	return nil
}

func (s *dnsServer) conn() *conn { return s.lookup.call.dns.net.get(s.handle) }

func (s *dnsServer) close() {
	if s.handle != 0 {
		s.lookup.call.dns.net.close(s.handle)
		s.handle = 0
	}
}

// giveUp stops queries to the server because of err.
func (s *dnsServer) giveUp(err error) {
	s.err = fmt.Errorf("%s: %w", s.addr, err)
	s.close()
}

// receive reads the messages that the server has sent.
func (s *dnsServer) receive(ctx context.Context) {
	n := &s.lookup.call.dns
	if n.buf == nil {
		n.buf = make([]byte, datagram)
	}
	for s.handle != 0 && s.conn().ready(&n.net) {
		size, err := s.conn().readBuffered(n.buf)
		if err == io.EOF {
			err = &limit{errno: abi.ECONNRESET, text: "it closed the connection"}
		}
		switch {
		case err != nil:
			s.giveUp(err)
		case size == 0:
			return
		case !s.tcp:
			s.read(ctx, n.buf[:size])
		default:
			s.part = append(s.part, n.buf[:size]...)
			if whole, ok := dnswire.Unframed(s.part); ok {
				s.read(ctx, whole)
			}
		}
	}
}

// read handles a message of the server.
func (s *dnsServer) read(ctx context.Context, msg []byte) {
	l := s.lookup
	a, err := l.question.Read(msg, s.tcp)
	switch {
	case err == dnswire.ErrStray:
		if s.strays++; s.tcp || s.strays >= maxStrays {
			s.giveUp(&limit{errno: abi.EPROTO, text: err.Error()})
		}
	case err != nil:
		s.giveUp(&limit{errno: abi.EPROTO, text: "a broken answer: " + err.Error()})
	case a.Truncated:
		s.askTCP(ctx)
	case a.Code == 1 && !s.plain: // FORMERR: the server may not support EDNS
		s.close()
		s.plain, s.part = true, nil
		s.ask(ctx)
	case (a.Code == 2 || a.Code == 4 || a.Code == 5) && l.live() > 1: // SERVFAIL, NOTIMP, REFUSED: another server may answer
		l.spare, l.from = &a, s.addr
		s.giveUp(dnswire.ErrStray)
	default:
		l.succeed(s.addr, a)
	}
}

// askTCP queries over TCP, for answers that are too long for UDP.
func (s *dnsServer) askTCP(ctx context.Context) {
	s.close()
	s.tcp = true
	if at, err := netip.ParseAddrPort(s.addr); err == nil && s.host != "" {
		text := "the answer is too long for udp: dial tcp " + s.addr
		if err := s.lookup.call.egress(plugin.CapabilityDNS).CheckTCP(ctx, s.host, at, text); err != nil {
			s.giveUp(err)
			return
		}
	}
	s.ask(ctx)
}

const (
	resolvConf    = "/etc/resolv.conf"
	resolvConfAge = 5 * time.Second // after this time the file is read again
	maxDNSServers = 3               // per look-up
)

// CheckServers returns an error unless each of addrs is an IP and a port.
func CheckServers(addrs []string) error {
	for _, addr := range addrs {
		if _, err := netip.ParseAddrPort(addr); err != nil {
			return fmt.Errorf("nameserver %q: want an IP and a port", addr)
		}
	}
	return nil
}

// nameservers caches the nameservers of the system.
type nameservers struct {
	mu   sync.Mutex
	read time.Time
	list []string
}

// addresses returns the nameservers in resolv.conf. It reads the file again after resolvConfAge.
func (n *nameservers) addresses() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := time.Now(); n.list == nil || now.Sub(n.read) >= resolvConfAge {
		text, _ := os.ReadFile(resolvConf) // without a file the default is returned
		n.list, n.read = parseResolvConf(string(text)), now
	}
	return n.list
}

// parseResolvConf returns the nameservers of a resolv.conf. Without any, it returns the local machine.
func parseResolvConf(text string) (addrs []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" || len(addrs) == maxDNSServers {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			addrs = append(addrs, net.JoinHostPort(addr.String(), "53"))
		}
	}
	if addrs == nil {
		return []string{"127.0.0.1:53"}
	}
	return addrs
}
