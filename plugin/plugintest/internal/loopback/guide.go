package loopback

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
)

// Guide is a server for processes that are built with sdk/process. A process asks it for the
// loopback addresses of peers and the certificate authority to trust. It listens as long as the
// process lives.
type Guide struct {
	ca        *cert.Authority
	ln        net.Listener
	answering sync.WaitGroup

	mu      sync.Mutex
	greeted bool      // the process has asked
	current *Loopback // of the current attempt; nil for none
}

// NewGuide starts a guide. The caller must close it.
func NewGuide() (*Guide, error) {
	ca, err := cert.NewAuthority()
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &Guide{ca: ca, ln: ln}
	g.answering.Go(g.accept)
	return g, nil
}

// Authority returns the authority that the process trusts.
func (g *Guide) Authority() *cert.Authority { return g.ca }

// Env returns the environment variable with the address of the guide.
func (g *Guide) Env() []string { return []string{abi.GuideEnv + "=" + g.ln.Addr().String()} }

// Asked reports whether the process has asked the guide.
func (g *Guide) Asked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.greeted
}

// SetCurrent sets the loopback of the current attempt; nil for none.
func (g *Guide) SetCurrent(l *Loopback) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current = l
}

// Close ends the guide.
func (g *Guide) Close() {
	_ = g.ln.Close()
	g.answering.Wait()
}

func (g *Guide) accept() {
	for {
		conn, err := g.ln.Accept()
		if err != nil {
			return
		}
		g.answering.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * Slack))
			var q abi.GuideQuestion
			if json.NewDecoder(conn).Decode(&q) == nil {
				_ = json.NewEncoder(conn).Encode(g.answer(q))
			}
		})
	}
}

func (g *Guide) answer(q abi.GuideQuestion) abi.GuideAnswer {
	g.mu.Lock()
	defer g.mu.Unlock() // the attempt does not end before the answer
	switch {
	case q.Ask == abi.GuideHello:
		g.greeted = true
		return abi.GuideAnswer{CA: string(g.ca.PEM), DNSServers: []string{peer.DNSServer}}
	case g.current == nil:
		return abi.GuideAnswer{Error: "no attempt is under way"}
	case q.Ask == abi.GuideHandshake:
		return abi.GuideAnswer{Error: g.current.tlsError(q.Addr)}
	case q.Ask == abi.GuideDial:
		return g.current.locate(q.Network, q.Addr)
	default:
		return abi.GuideAnswer{Error: "the guide does not know that question"}
	}
}

// tlsError returns the error of a client's handshake, "" for none.
func (l *Loopback) tlsError(client string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tlsErrors[client]
}

// locate returns the loopback address for an address that the process dials.
func (l *Loopback) locate(network, addr string) abi.GuideAnswer {
	if network == "unix" {
		return l.locateUnix(addr)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return abi.GuideAnswer{Error: err.Error()}
	}
	if host == l.Target.Host {
		host = l.Net.Target.Host
		if addr == l.at {
			_, port, _ = net.SplitHostPort(l.address)
		}
	}
	answer := abi.GuideAnswer{Name: host}
	addrs, err := l.resolve(host)
	if err != nil {
		answer.Error = "no such host"
	}
	for _, a := range addrs {
		answer.At = append(answer.At, l.mustListen(network, net.JoinHostPort(a.String(), port)))
	}
	return answer
}

func (l *Loopback) locateUnix(path string) abi.GuideAnswer {
	if path == l.Target.Unix {
		return abi.GuideAnswer{At: []string{path}}
	}
	return abi.GuideAnswer{At: []string{l.mustListen("unix", path)}}
}

// mustListen is listen, except that an error fails the case.
func (l *Loopback) mustListen(network, addr string) string {
	if p, _ := l.Net.At(network, addr); p != nil {
		l.Net.Contact()
	}
	at, err := l.listen(network, addr)
	if err != nil {
		l.Net.Faultf("listen for the process: %v", err)
	}
	return at
}

// resolve returns the addresses of a host.
func (l *Loopback) resolve(host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	return l.Net.LookupIP(context.Background(), host)
}
