package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/probe"
)

// countingGuard is a guard that refuses destinations for which refuse returns true, and counts its refusals.
type countingGuard struct {
	refuse func(to netns.To) bool
	count  atomic.Int32
}

func (a *countingGuard) check(_ string, to netns.To) error {
	if a.refuse(to) {
		a.count.Add(1)
		return errors.New("refused by the guard")
	}
	return nil
}

// TestGuardOfEveryHandlerInNamespaceOfPod refuses and allows the host of each target.
func TestGuardOfEveryHandlerInNamespaceOfPod(t *testing.T) {
	path := serveIn(t, first).Path
	for i := range kinds {
		kind := &kinds[i]
		for _, refuses := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/refuses=%t", kind.name, refuses), func(t *testing.T) {
				guard := &countingGuard{refuse: func(to netns.To) bool { return refuses && to.Host != "" }}
				s := newSet(t, nil)
				s.SetNetworks(func(string) (string, bool) { return path, true }, guard.check, nil)
				target := probe.Target{Host: "127.0.0.1", Port: kind.port}
				h, err := s.Prepare(kind.handler, []byte(kind.config), target)
				if err != nil {
					t.Fatal(err)
				}
				defer probe.Release(h)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if kind.netHTTP {
					ctx = httptrace.WithClientTrace(ctx, new(httptrace.ClientTrace))
				}
				out, err := h.Probe(ctx, inPod("a", target))
				if got := shown(kind.handler, out); (err == nil && got == kind.first) == refuses {
					t.Errorf("got %s, %q, %v", got, out.Output, err)
				}
				if (guard.count.Load() > 0) != refuses {
					t.Errorf("the guard has refused %d times", guard.count.Load())
				}
			})
		}
	}
}

// TestGuardOfEveryHandler counts the connections to servers in the network of the program and on a socket.
func TestGuardOfEveryHandler(t *testing.T) {
	var connections atomic.Int32
	serve := func(network, address string) net.Addr {
		t.Helper()
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		_ = s.Listener.Close()
		s.Listener = l
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
		s.Start()
		t.Cleanup(s.Close)
		return l.Addr()
	}
	port := serve("tcp4", "127.0.0.1:0").(*net.TCPAddr).Port
	socket := serve("unix", filepath.Join(t.TempDir(), "s")).String()
	any := func(netns.To) bool { return true }
	for _, c := range []struct {
		name   string
		target probe.Target
		refuse func(netns.To) bool
	}{
		{"host", probe.Target{Host: "127.0.0.1", Port: port}, func(to netns.To) bool { return to.Host == "127.0.0.1" }},
		{"address", probe.Target{Host: "127.0.0.1", Port: port}, func(to netns.To) bool { return to.Addr == netip.MustParseAddr("127.0.0.1") }},
		{"name", probe.Target{Host: "localhost", Port: port}, func(to netns.To) bool { return to.Host == "localhost" }},
		{"address of name", probe.Target{Host: "localhost", Port: port}, func(to netns.To) bool { return to.Addr.IsValid() && to.Addr.IsLoopback() }},
		{"socket", probe.Target{Unix: socket}, func(to netns.To) bool { return to.Socket == socket }},
		{"socket and all else", probe.Target{Unix: socket}, any},
	} {
		for _, handler := range []string{"tcp", "http", "grpc", "expect", "httpcheck"} {
			for _, refuses := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s of %s/refuses=%t", c.name, handler, refuses), func(t *testing.T) {
					guard := &countingGuard{refuse: func(to netns.To) bool { return refuses && c.refuse(to) }}
					s := newSet(t, nil)
					s.SetNetworks(func(string) (string, bool) { return "", false }, guard.check, nil)
					config := map[string]string{"expect": `{"queryResponse":[{"expect":"x"}]}`}[handler]
					if config == "" {
						config = "{}"
					}
					h, err := s.Prepare(handler, []byte(config), c.target)
					if err != nil {
						t.Fatal(err)
					}
					defer probe.Release(h)
					before := connections.Load()
					ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // expect waits for a banner
					defer cancel()
					out, err := h.Probe(ctx, inPod("a", c.target))
					success := err == nil && out.Result == probe.Success // tcp succeeds before the server notices
					if made := connections.Load() > before || success; made == refuses {
						t.Errorf("got %s, %q, %v", out.Result, out.Output, err)
					}
					if (guard.count.Load() > 0) != refuses {
						t.Errorf("the guard has refused %d times", guard.count.Load())
					}
				})
			}
		}
	}
}
