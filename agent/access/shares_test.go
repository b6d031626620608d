package access_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/access"
)

const (
	slots = 4
	wait  = 5 * time.Second
)

// shared serves / with four slots until the test ends. /slow has the same slots, and writes until its client
// is cut off. Each part has a new deadline, as in lists.
func shared(t *testing.T) *pipes {
	s := &access.Shares{
		Slots: slots, Wait: wait, Full: func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, Cut: func(from string) {
			if from == "198.51.100.1" {
				t.Error("a request of the bystander was cut")
			}
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.Limit(func(http.ResponseWriter, *http.Request) {}))
	mux.HandleFunc("/slow", s.Limit(func(w http.ResponseWriter, r *http.Request) {
		for {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour))
			if _, err := io.WriteString(w, strings.Repeat("a", 4<<10)); err != nil {
				return
			}
		}
	}))
	mux.HandleFunc("/hangs", s.Limit(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	p := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: mux}
	served := make(chan error)
	go func() { served <- server.Serve(p) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return p
}

// occupy sends requests of peers that never read.
func (p *pipes) occupy(t *testing.T, path string, peers ...string) (conns []net.Conn) {
	for _, peer := range peers {
		c := p.dial(peer)
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
		synctest.Wait()
		conns = append(conns, c)
	}
	return conns
}

func TestSharesOfPeers(t *testing.T) {
	const a, b, c, d, bystander = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "198.51.100.1"
	for name, of := range map[string]struct {
		held   []string
		status int
		took   time.Duration
	}{
		"a free slot":                  {[]string{a, a, a}, 200, 0},
		"one peer has all":             {[]string{a, a, a, a}, 200, time.Second},
		"one address of a /64 has all": {[]string{"2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"}, 200, time.Second},
		"two peers have two":           {[]string{a, b, a, b}, 200, time.Second},
		"four peers have one":          {[]string{a, b, c, d}, 503, wait},
		"its own peer has all":         {[]string{bystander, bystander, bystander, bystander}, 503, wait},
		"its own peer has one less":    {[]string{bystander, a, bystander, a}, 503, wait},
		"its own peer has two less":    {[]string{bystander, a, a, a}, 200, time.Second},
	} {
		for _, path := range []string{"/slow", "/hangs"} {
			t.Run(name+" "+path[1:], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := shared(t)
					p.occupy(t, path, of.held...)
					start := time.Now()
					if got := p.get(bystander, "/"); got != of.status || time.Since(start) != of.took {
						t.Errorf("status %d after %s, want %d after %s", got, time.Since(start), of.status, of.took)
					}
				})
			})
		}
	}
}

// A waiting crowd does not go first, and several requests of a bystander cut no more than its share.
func TestSharesOfWaitingPeers(t *testing.T) {
	const crowd, bystander = "192.0.2.1", "198.51.100.1"
	synctest.Test(t, func(t *testing.T) {
		p := shared(t)
		p.occupy(t, "/slow", slices.Repeat([]string{crowd}, 4*slots)...)
		conns := p.occupy(t, "/hangs", slices.Repeat([]string{bystander}, slots)...)
		time.Sleep(wait + time.Second)
		synctest.Wait()
		cut := 0
		for _, c := range conns {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if n, _ := c.Read(make([]byte, 1)); n > 0 { // got a byte
				cut++
			}
		}
		if cut != slots/2 {
			t.Errorf("%d of %d requests of the bystander got no slot, want %d", cut, slots, slots/2)
		}
	})
}

// The end of a request does not cut its own response.
func TestSharesKeepConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := shared(t)
		c := p.dial("192.0.2.1")
		defer c.Close()
		for range 3 {
			if got := ask(c, "/"); got != http.StatusOK {
				t.Fatalf("status %d", got)
			}
			time.Sleep(time.Second)
		}
	})
}
