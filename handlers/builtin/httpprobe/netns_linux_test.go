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

// namespaced is a server in a network namespace. All of them have the same address.
type namespaced struct {
	namespace *netns.Namespace
	net       *netnstest.Net
	text      string // body of its responses
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
	own := &namespaced{namespace: namespace, net: n, text: text}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/again" {
			http.Redirect(w, r, "https://127.0.0.1:8443/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	own.listen(t, s, "127.0.0.1:8443")
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

// listen makes server listen in the namespace.
func (s *namespaced) listen(t testing.TB, server *httptest.Server, at string) {
	t.Helper()
	var err error
	_ = server.Listener.Close()
	s.net.Do(func() { server.Listener, err = net.Listen("tcp4", at) })
	if err != nil {
		t.Fatal(err)
	}
}

func (s *namespaced) attempt(t testing.TB, h probe.Handler) (probe.Outcome, error) {
	ctx, cancel := context.WithTimeout(netns.With(t.Context(), s.namespace), time.Minute)
	defer cancel()
	return h.Probe(ctx, probe.Request{Spec: probe.Spec{Timeout: time.Minute, Period: time.Minute}})
}

// TestReuseIsWithinOneNamespace moves a probe to another namespace that has the same address.
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

// TestHTTP2IsWithinOneNamespace makes concurrent attempts in two namespaces with net/http, which shares
// connections to one address.
func TestHTTP2IsWithinOneNamespace(t *testing.T) {
	one, other := serveNamespaced(t, "one", true, true), serveNamespaced(t, "other", true, true)
	h, err := httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Host: "127.0.0.1", Port: 8443, Scheme: "HTTPS"})
	if err != nil {
		t.Fatal(err)
	}
	attemptAll(t, rig.ByNetHTTP(h), one, other)
}

// attemptAll makes concurrent attempts at all servers. They are so many that some would share a
// connection if they could: net/http shares a connection only between the end of its handshake and the
// start of its first request.
func attemptAll(t *testing.T, h probe.Handler, servers ...*namespaced) {
	t.Helper()
	var wg sync.WaitGroup
	for range 8 {
		for _, s := range servers {
			wg.Go(func() {
				for range 25 {
					if out, err := s.attempt(t, h); err != nil || out.Output != s.text {
						t.Errorf("got %+v, %v, want %s", out, err, s.text)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

// TestRedirectIsWithinOneNamespace redirects to one HTTP/2 address, from HTTP/1.1 and from HTTP/2.
func TestRedirectIsWithinOneNamespace(t *testing.T) {
	one, other := serveNamespaced(t, "one", true, true), serveNamespaced(t, "other", true, true)
	for _, s := range []*namespaced{one, other} {
		plain := httptest.NewUnstartedServer(http.RedirectHandler("https://127.0.0.1:8443/", http.StatusFound))
		s.listen(t, plain, "127.0.0.1:8080")
		plain.Start()
		defer plain.Close()
	}
	for name, action := range map[string]httpprobe.Action{
		"HTTP/1.1": {Host: "127.0.0.1", Port: 8080},
		"HTTP/2":   {Host: "127.0.0.1", Port: 8443, Scheme: "HTTPS", Path: "/again"},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := httpprobe.New(httpprobe.Config{}).Bind(action)
			if err != nil {
				t.Fatal(err)
			}
			attemptAll(t, h, one, other)
		})
	}
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
