package httpprobe_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/netnstest"
	"github.com/daeace23/prober/probe"
)

// namespaced is a server in a namespace, at the same address as those of other ones.
type namespaced struct {
	namespace *netns.Namespace
	text      string // of its responses
	conns     atomic.Int32
}

// serveNamespaced starts a server at 127.0.0.1:8443.
func serveNamespaced(t testing.TB, text string, secure, http2 bool) *namespaced {
	t.Helper()
	n := netnstest.New(t)
	namespace, err := netns.Open(n.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = namespace.Close() })
	own := &namespaced{namespace: namespace, text: text}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, text)
	}))
	_ = s.Listener.Close()
	n.Do(func() { s.Listener, err = net.Listen("tcp4", "127.0.0.1:8443") })
	if err != nil {
		t.Fatal(err)
	}
	s.EnableHTTP2, s.Config.ErrorLog = http2, log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			own.conns.Add(1)
		}
	}
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return own
}

func (s *namespaced) attempt(t testing.TB, h probe.Handler) (probe.Outcome, error) {
	ctx, cancel := context.WithTimeout(netns.With(t.Context(), s.namespace), time.Minute)
	defer cancel()
	return h.Probe(ctx, probe.Request{Spec: probe.Spec{Timeout: time.Minute, Period: time.Minute}})
}

// TestReuseIsWithinOneNamespace has a probe whose pod gets another namespace with the same address.
func TestReuseIsWithinOneNamespace(t *testing.T) {
	for scheme, secure := range map[string]bool{"HTTP": false, "HTTPS": true} {
		one, other := serveNamespaced(t, "one", secure, false), serveNamespaced(t, "other", secure, false)
		h, err := httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Host: "127.0.0.1", Port: 8443, Scheme: scheme, Reuse: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*namespaced{one, one, other, other, one} {
			if out, err := s.attempt(t, h); err != nil || out.Output != s.text {
				t.Errorf("%s: got %+v, %v, want %s", scheme, out, err, s.text)
			}
		}
		if a, b := one.conns.Load(), other.conns.Load(); a != 2 || b != 1 {
			t.Errorf("%s: %d and %d connections, want 2 and 1", scheme, a, b)
		}
		probe.Release(h)
	}
}

// TestHTTP2IsWithinOneNamespace makes attempts of two namespaces at the same time with net/http, which shares
// connections of one address.
func TestHTTP2IsWithinOneNamespace(t *testing.T) {
	servers := []*namespaced{serveNamespaced(t, "one", true, true), serveNamespaced(t, "other", true, true)}
	h, err := httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Host: "127.0.0.1", Port: 8443, Scheme: "HTTPS"})
	if err != nil {
		t.Fatal(err)
	}
	whole := rig.ByNetHTTP(h)
	var wg sync.WaitGroup
	for range 8 {
		for _, s := range servers {
			wg.Go(func() {
				for range 25 {
					if out, err := s.attempt(t, whole); err != nil || out.Output != s.text {
						t.Errorf("got %+v, %v, want %s", out, err, s.text)
					}
				}
			})
		}
	}
	wg.Wait()
}

func BenchmarkNamespace(b *testing.B) {
	s := serveNamespaced(b, "ok", false, false)
	own, port := rig.Serve(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	defer own.Close()
	for _, c := range []struct {
		name string
		port int
		ctx  context.Context
	}{{"own", port, b.Context()}, {"other", 8443, netns.With(b.Context(), s.namespace)}} {
		b.Run(fmt.Sprintf("namespace=%s", c.name), func(b *testing.B) {
			h, err := httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Host: "127.0.0.1", Port: c.port})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if out, err := h.Probe(c.ctx, probe.Request{}); err != nil || out.Result != probe.Success {
					b.Fatal(out, err)
				}
			}
		})
	}
}
