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
)

// network is the network of one case.
type network struct {
	clock *clock
	rng   *rand.Rand
	peers []*peer
	names map[string][]netip.Addr

	mu     sync.Mutex
	faults []string // what the guest did that the case does not foresee
}

// peer is a [Peer] and what became of it.
type peer struct {
	*Peer
	network, addr string
	conns         []*conn
}

func newNetwork(c *Case, clock *clock, rng *rand.Rand) *network {
	n := &network{clock: clock, rng: rng, names: make(map[string][]netip.Addr)}
	n.name(c.Target.Host)
	for host, addrs := range c.Names {
		n.names[canonical(host)] = addrs
	}
	for i := range c.Peers {
		p := &peer{Peer: &c.Peers[i]}
		p.network, p.addr = n.endpoint(p.Dial)
		n.peers = append(n.peers, p)
	}
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
	if addrs := n.names[canonical(host)]; len(addrs) > 0 {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (n *network) fault(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = append(n.faults, fmt.Sprintf(format, args...))
}

// peerAt returns the peer that the next connection to addr gets.
func (n *network) peerAt(network, addr string) *peer {
	var found *peer
	for _, p := range n.peers {
		if p.network == network && p.addr == addr {
			if found = p; len(p.conns) == 0 {
				return p
			}
		}
	}
	return found
}

// DialContext connects to the peer at addr.
func (n *network) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	p := n.peerAt(network, addr)
	if p == nil {
		n.fault("the plugin dials %s://%s, of which host.net says nothing", network, n.spelt(addr))
		return nil, opError("dial", network, addr, os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	c := &conn{peer: p, host: n}
	p.conns = append(p.conns, c)
	wait := p.Latency
	if p.Behaviour == Timeout {
		wait = -1
	}
	if wait != 0 {
		n.clock.Wait(ctx, nil, wait)
	}
	if ctx.Err() != nil {
		return nil, opError("dial", network, addr, dialError(ctx))
	}
	switch p.Behaviour {
	case Refuse:
		return nil, opError("dial", network, addr, os.NewSyscallError("connect", syscall.ECONNREFUSED))
	case ResetNow:
		c.err = syscall.ECONNRESET
	case "":
		c.run()
	}
	return c, nil
}

// leftover says what of the scripts never came to pass.
func (n *network) leftover() []string {
	var left []string
	for _, p := range n.peers {
		if len(p.conns) == 0 {
			left = append(left, fmt.Sprintf("line %d: %s is never dialled", p.Line, p.Dial))
		}
		for _, c := range p.conns {
			if r := c.waitsFor(); r != nil {
				left = append(left, fmt.Sprintf("line %d: %s still waits for %v; got %s", r.Line, p.Dial, r.Recv, quote(c.out)))
			}
		}
	}
	return left
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
