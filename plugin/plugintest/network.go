package plugintest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// network is the network of one case.
type network struct {
	clock   timeline
	session string    // path of the session that the case replays
	native  bool      // the clock is the program's own
	all     Behaviour // of whatever nothing is said of; "": that is a fault
	peers   []*peer
	web     []*exchange
	zone    []*zoneEntry
	asked   map[string]bool         // addresses of servers that the zone is on
	names   map[string][]netip.Addr // read-only once it is made

	attempt context.Context // of a guest; nil of what runs in real time

	mu     sync.Mutex
	meets  int             // that were due to all
	looked map[string]bool // names that were looked up to be dialled
	rng    *rand.Rand
	faults []string // what the guest did that the case does not foresee
}

// peer is a [Peer] and what became of it.
type peer struct {
	*Peer
	network, addr string
	conns         []*conn // guarded by the network's mu
}

func newNetwork(c *Case, clock timeline, rng *rand.Rand) *network {
	n := &network{
		clock: clock, session: c.session, all: c.all, rng: rng, names: make(map[string][]netip.Addr),
		asked: map[string]bool{dnsServer: true}, looked: make(map[string]bool),
	}
	for host, addrs := range c.Names {
		n.names[canonical(host)] = addrs
	}
	n.addZone(c)
	n.name(c.Target.Host)
	for i := range c.Peers {
		p := &peer{Peer: &c.Peers[i]}
		p.network, p.addr = n.endpoint(p.Dial)
		n.peers = append(n.peers, p)
	}
	n.addWeb(c)
	return n
}

func canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// name gives host an address if it is a name that has none.
func (n *network) name(host string) netip.Addr {
	if addr, err := netip.ParseAddr(host); err == nil || host == "" {
		return addr.Unmap()
	}
	host = canonical(host)
	if host == "localhost" {
		n.names[host] = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	if addrs, ok := n.names[host]; ok {
		if len(addrs) == 0 {
			return netip.Addr{}
		}
		return addrs[0]
	}
	addr := netip.AddrFrom4([4]byte{10, 99, 0, byte(len(n.names) + 1)})
	n.names[host] = []netip.Addr{addr}
	return addr
}

// endpoint returns where a URL of the file leads, as dials spell it.
func (n *network) endpoint(rawURL string) (network, addr string) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme == "unix" {
		return "unix", strings.TrimPrefix(rawURL, "unix://")
	}
	if u.Scheme == "tls" {
		u.Scheme = "tcp" // that comes first
	}
	return u.Scheme, net.JoinHostPort(n.name(u.Hostname()).String(), u.Port())
}

// spelt returns an address with the name that a file has for it.
func (n *network) spelt(addr string) string {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return addr
	}
	for _, host := range slices.Sorted(maps.Keys(n.names)) {
		if slices.Contains(n.names[host], at.Addr()) {
			return net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
		}
	}
	return addr
}

// LookupIP answers with the addresses of the file.
func (n *network) LookupIP(_ context.Context, host string) ([]netip.Addr, error) {
	host = canonical(host)
	if n.over() {
		return nil, &net.DNSError{Err: os.ErrDeadlineExceeded.Error(), Name: host, IsTimeout: true}
	}
	n.mu.Lock()
	n.looked[host] = true
	n.mu.Unlock()
	if addrs := n.names[host]; len(addrs) > 0 {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// over reports whether the attempt has come to its end. A guest goes on from there for as
// long as it takes to stop it, which is a matter of chance: nothing of what it does then
// reaches anyone.
func (n *network) over() bool { return n.attempt != nil && n.attempt.Err() != nil }

// line is where something stands in the case's file, or in the session that it replays.
func (n *network) line(number int) string {
	if n.session == "" {
		return fmt.Sprintf("line %d", number)
	}
	return fmt.Sprintf("%s:%d", n.session, number)
}

func (n *network) fault(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = append(n.faults, fmt.Sprintf(format, args...))
}

// meet is the peer that stands for all.
func (n *network) meet() *Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.meets++
	return &Peer{Behaviour: n.all, TLS: newTLS()}
}

// met reports whether the guest has tried to reach anyone.
func (n *network) met() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.meets > 0
}

// junk is what a peer says that makes no sense.
func (n *network) junk() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	junk := make([]byte, garbageBytes)
	for i := range junk {
		junk[i] = byte(n.rng.Uint32())
	}
	return junk
}

// connect returns a connection to the peer whose turn it is at addr, or nil.
func (n *network) connect(network, addr string) *conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found *peer
	for _, p := range n.peers {
		if p.network != network || p.addr != addr {
			continue
		}
		if found = p; len(p.conns) == 0 {
			break
		}
	}
	if found == nil {
		return nil
	}
	c := n.newConn(found)
	found.conns = append(found.conns, c)
	return c
}

// another gives a connection, whose peer does not know what to make of the beginning,
// to one of the same address that does and has had none. It reports whether there was
// one. Connections may so come in any order.
func (n *network) another(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.peers {
		if p.network != c.peer.network || p.addr != c.peer.addr || len(p.conns) > 0 || !p.begins(c.out) {
			continue
		}
		c.peer.conns = slices.DeleteFunc(c.peer.conns, func(o *conn) bool { return o == c })
		p.conns = append(p.conns, c)
		c.peer = p
		return true
	}
	return false
}

// begins reports whether the script can begin with data.
func (p *peer) begins(data []byte) bool {
	if p.Behaviour != "" || len(p.Script) == 0 || p.Script[0].Recv == nil {
		return false
	}
	_, _, err := p.Script[0].Recv.match(data)
	return err == nil
}

// DialContext connects to the peer at addr.
func (n *network) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if n.over() {
		return nil, opError("dial", network, addr, os.ErrDeadlineExceeded)
	}
	c := n.connect(network, addr)
	if c == nil && n.answers(network, addr) {
		return n.newQuery(network, addr), nil
	}
	if c == nil && n.all != "" {
		c = n.newConn(&peer{Peer: n.meet(), network: network, addr: addr})
	}
	if c == nil {
		n.fault("the plugin dials %s://%s, of which host.net says nothing", network, n.spelt(addr))
		return nil, refused(network, addr)
	}
	behaviour := c.peer.Behaviour
	if err := n.delay(ctx, network, addr, behaviour, c.peer.Latency); err != nil {
		return nil, err
	}
	c.start()
	return c, nil
}

// answers reports whether a server of DNS is at addr.
func (n *network) answers(network, addr string) bool {
	known := n.asked[addr] || len(n.zone) > 0 && strings.HasSuffix(addr, ":53")
	return known && (network == "udp" || network == "tcp")
}

// delay waits for a connection to be made.
func (n *network) delay(ctx context.Context, network, addr string, b Behaviour, latency time.Duration) error {
	if b == Timeout {
		latency = -1
	}
	if latency != 0 {
		n.clock.Wait(ctx, nil, latency)
	}
	if ctx.Err() != nil {
		return opError("dial", network, addr, dialError(ctx))
	}
	if b == Refuse {
		return refused(network, addr)
	}
	return nil
}

func refused(network, addr string) error {
	return opError("dial", network, addr, os.NewSyscallError("connect", syscall.ECONNREFUSED))
}

// connections returns those of each peer.
func (n *network) connections() [][]*conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([][]*conn, len(n.peers))
	for i, p := range n.peers {
		all[i] = slices.Clone(p.conns)
	}
	return all
}

// ended says what the guest did that the case does not foresee, and what of the case
// never came to pass.
func (n *network) ended() []string {
	all := n.connections()
	n.mu.Lock()
	left := slices.Clone(n.faults)
	n.mu.Unlock()
	for i, conns := range all {
		p := n.peers[i]
		if len(conns) == 0 {
			left = append(left, fmt.Sprintf("%s: %s is never dialled", n.line(p.Line), p.Dial))
		}
		for _, c := range conns {
			if s, got := c.waitsFor(); s != nil {
				left = append(left, fmt.Sprintf("%s: %s still waits for %v; got %s", n.line(s.Line), p.Dial, s, got))
			}
		}
	}
	return append(append(left, n.leftWeb()...), n.leftZone()...)
}

func dialError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return errors.New("operation was canceled")
}

func opError(op, network, addr string, err error) error {
	return &net.OpError{Op: op, Net: network, Addr: address{network, addr}, Err: err}
}

type address struct{ network, addr string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.addr }
