package plugintest

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/abi"
)

// guide tells a process where the world of its case is. It listens as long as the process
// lives.
type guide struct {
	ca        *authority
	ln        net.Listener
	answering sync.WaitGroup

	mu     sync.Mutex
	greets bool      // the process has asked
	now    *loopback // of the case that runs; nil between two
}

func newGuide() (*guide, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &guide{ca: ca, ln: ln}
	g.answering.Go(g.listen)
	return g, nil
}

// env is what tells a process of the guide.
func (g *guide) env() []string { return []string{abi.GuideEnv + "=" + g.ln.Addr().String()} }

// asked reports whether the process asks where it is to go.
func (g *guide) asked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.greets
}

func (g *guide) begin(l *loopback) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = l
}

func (g *guide) end() { g.begin(nil) }

func (g *guide) close() {
	_ = g.ln.Close()
	g.answering.Wait()
}

func (g *guide) listen() {
	for {
		conn, err := g.ln.Accept()
		if err != nil {
			return
		}
		g.answering.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * slack))
			var q abi.GuideQuestion
			if json.NewDecoder(conn).Decode(&q) == nil {
				_ = json.NewEncoder(conn).Encode(g.answer(q))
			}
		})
	}
}

func (g *guide) answer(q abi.GuideQuestion) abi.GuideAnswer {
	g.mu.Lock()
	defer g.mu.Unlock() // until the answer is there: nothing ends meanwhile
	switch {
	case q.Ask == abi.GuideHello:
		g.greets = true
		return abi.GuideAnswer{CA: string(g.ca.pem), DNSServers: []string{dnsServer}}
	case g.now == nil:
		return abi.GuideAnswer{Error: "no attempt is under way"}
	case q.Ask == abi.GuideHandshake:
		return abi.GuideAnswer{Error: g.now.failure(q.Addr)}
	case q.Ask == abi.GuideDial:
		return g.now.direct(q.Network, q.Addr)
	default:
		return abi.GuideAnswer{Error: "the guide does not know that question"}
	}
}

// failure is why the handshake failed that an address began.
func (l *loopback) failure(from string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why[from]
}

// direct says where what a process dials is in reality.
func (l *loopback) direct(network, addr string) abi.GuideAnswer {
	if network == "unix" {
		return l.directUnix(addr)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return abi.GuideAnswer{Error: err.Error()}
	}
	if host == l.target.Host {
		host = l.host
		if addr == l.at {
			_, port, _ = net.SplitHostPort(l.address)
		}
	}
	answer := abi.GuideAnswer{Name: host}
	addrs, err := l.addresses(host)
	if err != nil {
		answer.Error = "no such host"
	}
	for _, a := range addrs {
		to := net.JoinHostPort(a.String(), port)
		if _, ok := l.net.shows(network, to); ok && l.net.all != "" {
			l.net.meet()
		}
		at, err := l.lead(network, to)
		if err != nil {
			l.net.fault("listen for the process: %v", err)
		}
		answer.At = append(answer.At, at)
	}
	return answer
}

func (l *loopback) directUnix(path string) abi.GuideAnswer {
	if path == l.target.Unix {
		return abi.GuideAnswer{At: []string{path}}
	}
	at, err := l.lead("unix", path)
	if err != nil {
		l.net.fault("listen for the process: %v", err)
	}
	return abi.GuideAnswer{At: []string{at}}
}

// addresses returns those of a host.
func (l *loopback) addresses(host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	return l.net.LookupIP(context.Background(), host)
}
