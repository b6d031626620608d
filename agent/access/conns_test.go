package access_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/daeace23/prober/agent/access"
)

// pipes is a listener whose connections are pipes from chosen addresses.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9876} }

// from is the server's end of a connection with a chosen remote address.
type from struct {
	net.Conn
	peer string
}

func (f from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(f.peer), 1))
}

// dial returns a connection from a peer that the server has accepted.
func (p *pipes) dial(peer string) net.Conn {
	ours, theirs := net.Pipe()
	p.accepted <- from{theirs, peer}
	synctest.Wait()
	return ours
}

// get returns the status of a request from a peer; 0 if its connection is closed.
func (p *pipes) get(peer, path string) int {
	c := p.dial(peer)
	defer synctest.Wait() // until the server has noticed that it is closed
	defer c.Close()
	return ask(c, path)
}

func ask(c net.Conn, path string) int {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path); err != nil {
		return 0
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// The crowd uses every kind of connection that is cheap for its peer.
func TestCrowdDoesNotBlockOtherPeers(t *testing.T) {
	const crowd, bystander = "192.0.2.1", "198.51.100.1"
	one := func(int) string { return crowd }
	two := func(i int) string { return fmt.Sprintf("192.0.2.%d", 1+i%2) }
	network := func(i int) string { return fmt.Sprintf("2001:db8::%x", i+1) }
	many := func(i int) string { return fmt.Sprintf("10.0.%d.%d", i/256, i%256) }
	open := func(net.Conn) {}
	half := func(c net.Conn) { _, _ = fmt.Fprint(c, "GET / HTTP/1.1\r\nHo") }
	idle := func(c net.Conn) { ask(c, "/") }
	busy := func(c net.Conn) { _, _ = fmt.Fprint(c, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n") }
	for name, c := range map[string]struct {
		count int
		peer  func(i int) string
		do    func(net.Conn)
		// statuses of / and /livez, for the bystander and for the peer of the crowd
		other, otherHealth, own, ownHealth int
	}{
		"one peer that sends nothing":        {2 * access.MaxConns, one, open, 200, 200, 200, 200},
		"one peer with half a header":        {2 * access.MaxConns, one, half, 200, 200, 200, 200},
		"one peer that is idle":              {2 * access.MaxConns, one, idle, 200, 200, 200, 200},
		"many peers with half a header":      {2 * access.MaxConns, many, half, 200, 200, 200, 200},
		"many peers that are idle":           {2 * access.MaxConns, many, idle, 200, 200, 200, 200},
		"addresses of one /64 that are busy": {2 * access.MaxConns, network, busy, 200, 200, 200, 200},
		"one peer that is busy":              {2 * access.MaxConns, one, busy, 200, 200, 503, 200},
		"two peers that are busy":            {2 * access.MaxConns, two, busy, 200, 200, 200, 200}, // the bystander's connections have closed one of them
		"many peers that are busy":           {2 * access.MaxConns, many, busy, 503, 200, 503, 200},
		"one peer below its share":           {access.MaxPeerConns - 1, one, busy, 200, 200, 200, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := serve(t)
				for i := range c.count {
					conn := p.dial(c.peer(i))
					defer conn.Close()
					done := make(chan struct{})
					go func() { c.do(conn); close(done) }()
					synctest.Wait()
					select {
					case <-done:
					default:
						t.Fatalf("connection %d is neither accepted nor closed", i)
					}
				}
				for _, r := range []struct {
					peer, path string
					want       int
				}{
					{bystander, "/", c.other}, {bystander, "/livez", c.otherHealth}, {bystander, "/livez", c.otherHealth},
					{crowd, "/", c.own}, {crowd, "/livez", c.ownHealth}, {crowd, "/livez", c.ownHealth},
				} {
					if got := p.get(r.peer, r.path); got != r.want {
						t.Errorf("GET %s of %s: %d, want %d", r.path, r.peer, got, r.want)
					}
				}
			})
		})
	}
}

// Only connections of the crowd are closed for new ones.
func TestCrowdClosesOnlyItsOwnConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t)
		kept := p.dial("198.51.100.1")
		defer kept.Close()
		if got := ask(kept, "/"); got != http.StatusOK {
			t.Fatalf("before: %d", got)
		}
		for i := range 2 * access.MaxConns {
			conn := p.dial(fmt.Sprintf("192.0.2.%d", 1+i%3))
			defer conn.Close()
		}
		if got := ask(kept, "/"); got != http.StatusOK {
			t.Errorf("an idle connection that is older than the crowd: %d", got)
		}
	})
}

// New connections of a busy crowd do not close a connection that has not sent its request yet.
func TestBusyCrowdClosesNoNewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t)
		const crowd = 8 // number of peers
		from := func(i int) string { return fmt.Sprintf("192.0.2.%d", 1+i%crowd) }
		for i := range access.MaxConns {
			conn := p.dial(from(i))
			defer conn.Close()
			fmt.Fprint(conn, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
			synctest.Wait()
		}
		bystander := p.dial("198.51.100.1")
		defer bystander.Close()
		for i := range 2 * crowd {
			conn := p.dial(from(i))
			defer conn.Close()
		}
		if got := ask(bystander, "/"); got != http.StatusOK {
			t.Errorf("status %d", got)
		}
	})
}

// serve serves until the test ends. Requests for /slow block until then.
func serve(t *testing.T) *pipes {
	p := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	end := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			select {
			case <-end:
			case <-r.Context().Done():
			}
		}
	})}
	served := make(chan error)
	go func() {
		served <- access.Web{}.Serve(p, server, access.ServeConfig{
			Log: slog.New(slog.DiscardHandler), First: func(h http.Handler) http.Handler { return h },
			Health: func(path string) bool { return path == "/livez" }, Crowded: func(string) {},
		})
	}()
	t.Cleanup(func() {
		close(end)
		_ = server.Close()
		<-served
	})
	return p
}
