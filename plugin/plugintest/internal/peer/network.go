package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
	"github.com/daeace23/prober/probe"
)

// Setup configures a [Network].
type Setup struct {
	Target  probe.Target
	Timeout time.Duration           // of the attempt
	Names   map[string][]netip.Addr // addresses of hosts; a host without one does not exist
	Peers   []Peers                 // at each address, the first that has a peer there is dialled
	Session string                  // path of the replayed session, or ""

	// Commands allows peers that are processes. Without it, they refuse connections.
	Commands bool
}

// Network is the network of one attempt.
type Network struct {
	Setup
	Clock clock.Clock
	Hosts *Hosts

	// RealTime reports whether Clock is a [clock.Real]: reads block until data or their deadline.
	RealTime bool

	players []Player
	attempt context.Context // of a guest; nil in real time

	mu       sync.Mutex
	contacts int             // with peers of Protocol.Everywhere
	lookedUp map[string]bool // names that were resolved for a dial
	rng      *rand.Rand
	faults   []string // actions of the plugin that the case does not foresee
}

// New returns a network for one attempt. seed determines its random bytes.
func New(s Setup, c clock.Clock, seed uint64) *Network {
	_, realTime := c.(*clock.Real)
	n := &Network{
		Setup: s, Clock: c, Hosts: newHosts(s.Names), RealTime: realTime,
		lookedUp: make(map[string]bool), rng: rand.New(rand.NewPCG(seed, 0)),
	}
	for _, p := range s.Peers {
		p.Names(n.Hosts)
	}
	n.Hosts.Addr(s.Target.Host)
	for _, p := range s.Peers {
		n.players = append(n.players, p.Play(n))
	}
	return n
}

// Begin sets the context of a guest's attempt.
func (n *Network) Begin(ctx context.Context) { n.attempt = ctx }

// Over reports whether the attempt of a guest has ended. The guest may run on until it is stopped.
// Its actions then vary from run to run, so they reach no peer.
func (n *Network) Over() bool { return n.attempt != nil && n.attempt.Err() != nil }

// Line returns the position of a line in the test file or in the session.
func (n *Network) Line(number int) string {
	if n.Session == "" {
		return fmt.Sprintf("line %d", number)
	}
	return fmt.Sprintf("%s:%d", n.Session, number)
}

// Faultf adds a failure of the case.
func (n *Network) Faultf(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = append(n.faults, fmt.Sprintf(format, args...))
}

// Contact records that the plugin has dialled or asked a peer of [Protocol.Everywhere].
func (n *Network) Contact() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.contacts++
}

// Contacted reports whether [Network.Contact] was called.
func (n *Network) Contacted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.contacts > 0
}

const garbageBytes = 1024

// Garbage returns random bytes.
func (n *Network) Garbage() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	garbage := make([]byte, garbageBytes)
	for i := range garbage {
		garbage[i] = byte(n.rng.Uint32())
	}
	return garbage
}

// LookupIP resolves a name for a dial.
func (n *Network) LookupIP(_ context.Context, host string) ([]netip.Addr, error) {
	host = Canonical(host)
	if n.Over() {
		return nil, &net.DNSError{Err: os.ErrDeadlineExceeded.Error(), Name: host, IsTimeout: true}
	}
	n.mu.Lock()
	n.lookedUp[host] = true
	n.mu.Unlock()
	if addrs, _ := n.Hosts.Addrs(host); len(addrs) > 0 {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// LookedUp reports whether a name was resolved for a dial.
func (n *Network) LookedUp(host string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lookedUp[Canonical(host)]
}

// DialContext connects to the peer at addr.
func (n *Network) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if n.Over() {
		return nil, OpError("dial", network, addr, os.ErrDeadlineExceeded)
	}
	for _, p := range n.players {
		if conn, ok, err := p.Dial(ctx, network, addr); ok {
			return conn, err
		}
	}
	n.Unforeseen(network, addr)
	return nil, Refused(network, addr)
}

// Unforeseen adds a failure: the plugin dials an address at which the case has no peer.
func (n *Network) Unforeseen(network, addr string) {
	n.Faultf("the plugin dials %s://%s, for which host.net has no peer", network, n.Hosts.Name(addr))
}

// Delay waits for latency, for ever with the behaviour Timeout. It returns the error of a dial that
// fails, nil if the connection is made.
func (n *Network) Delay(ctx context.Context, network, addr string, b Behaviour, latency time.Duration) error {
	if b == Timeout {
		latency = -1
	}
	if latency != 0 {
		n.Clock.Wait(ctx, nil, latency)
	}
	if ctx.Err() != nil {
		return OpError("dial", network, addr, ended(ctx))
	}
	if b == Refuse {
		return Refused(network, addr)
	}
	return nil
}

// secured is a connection after its handshake.
type secured struct {
	TLSConn
	state tls.ConnectionState
}

// ConnectionState returns the state after the handshake.
func (s *secured) ConnectionState() tls.ConnectionState { return s.state }

// Handshake simulates a handshake: no bytes flow, and the certificate is verified against the
// clock and the name in config.
func (n *Network) Handshake(ctx context.Context, raw net.Conn, config *tls.Config) (net.Conn, error) {
	conn, ok := raw.(TLSConn)
	if !ok {
		return nil, fmt.Errorf("TLS over a connection of type %T", raw)
	}
	at := raw.RemoteAddr()
	if n.Over() {
		return nil, OpError("read", at.Network(), at.String(), os.ErrDeadlineExceeded)
	}
	server := conn.Server()
	switch server.Behaviour {
	case HalfOpen:
		n.Clock.Wait(ctx, nil, -1)
		return nil, OpError("read", at.Network(), at.String(), ended(ctx))
	case Reset:
		return nil, OpError("read", at.Network(), at.String(), syscall.ECONNRESET)
	case Garbage:
		server.TLS = nil
	}
	state, err := server.TLS.Handshake(server.URL, n.Clock.Now(), config)
	if err != nil {
		return nil, err
	}
	conn.HandshakeDone()
	return &secured{conn, state}, nil
}

// RoundTrip answers an HTTP request to the server at addr.
func (n *Network) RoundTrip(req *http.Request, addr string) (*http.Response, error) {
	if n.Over() {
		return nil, n.attempt.Err()
	}
	return n.HTTP().RoundTrip(req, addr)
}

// HTTP returns the player that answers HTTP requests.
func (n *Network) HTTP() HTTPPlayer {
	for _, p := range n.players {
		if web, ok := p.(HTTPPlayer); ok {
			return web
		}
	}
	return nil
}

// Echo replies to an ICMP echo request.
func (n *Network) Echo(ctx context.Context, r wasm.EchoRequest) (wasm.EchoReply, error) {
	if n.Over() {
		return wasm.EchoReply{}, n.attempt.Err()
	}
	for _, p := range n.players {
		if hosts, ok := p.(EchoPlayer); ok {
			return hosts.Echo(ctx, r)
		}
	}
	return wasm.EchoReply{}, errors.ErrUnsupported
}

// Close ends the processes that play peers.
func (n *Network) Close() {
	for _, p := range n.players {
		if c, ok := p.(io.Closer); ok {
			_ = c.Close()
		}
	}
}

// Failures returns the actions of the plugin that the case does not foresee, and the unused peers.
func (n *Network) Failures() []string {
	n.mu.Lock()
	all := slices.Clone(n.faults)
	n.mu.Unlock()
	for _, p := range n.players {
		all = append(all, p.Unused()...)
	}
	return all
}

// States returns the state of each peer.
func (n *Network) States() (all []string) {
	for _, p := range n.players {
		all = append(all, p.States()...)
	}
	return all
}

// At returns the first player that has a peer at addr, and the peer's behaviour; nil for none.
func (n *Network) At(network, addr string) (Player, Behaviour) {
	for _, p := range n.players {
		if b, ok := p.At(network, addr); ok {
			return p, b
		}
	}
	return nil, ""
}

// MarkUsed marks all peers at addr as used.
func (n *Network) MarkUsed(network, addr string) {
	for _, p := range n.players {
		p.MarkUsed(network, addr)
	}
}

// Unservable returns the reason why sockets on loopback cannot play the network, or "": see
// [Player].
func (n *Network) Unservable(guided bool) string {
	for _, p := range n.players {
		if reason := p.Unservable(guided); reason != "" {
			return reason
		}
	}
	return ""
}

// TargetAddr returns the network and address at which the target is dialled, "" if there is none.
func (n *Network) TargetAddr() (network, addr string) {
	switch t := n.Target; {
	case t.Unix != "":
		return "unix", t.Unix
	case t.Port > 0 && n.Hosts.Addr(t.Host).IsValid():
		return "tcp", n.Hosts.HostPort(t.Host, strconv.Itoa(t.Port))
	default:
		return "", ""
	}
}

// Refused returns the error of a dial that is refused.
func Refused(network, addr string) error {
	return OpError("dial", network, addr, os.NewSyscallError("connect", syscall.ECONNREFUSED))
}

func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return errors.New("operation was canceled")
}

// OpError returns a [net.OpError] for an address of the simulated network.
func OpError(op, network, addr string, err error) error {
	return &net.OpError{Op: op, Net: network, Addr: Addr{network, addr}, Err: err}
}

// Addr is a [net.Addr] of the simulated network.
type Addr struct{ Net, Address string }

// Network implements [net.Addr].
func (a Addr) Network() string { return a.Net }

// String implements [net.Addr].
func (a Addr) String() string { return a.Address }
