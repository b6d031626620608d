// Package rig has helpers for tests of the built-in handlers: attempts and checks of their outcomes, servers,
// and a simulated network.
package rig

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Flood is a text that is longer than [probe.MaxOutput].
var Flood = strings.Repeat("x", 11<<10)

// Prepare binds p to config.
func Prepare(t testing.TB, p probe.Preparer, config string) probe.Handler {
	t.Helper()
	h, err := p.Prepare([]byte(config), probe.Target{})
	if err != nil {
		t.Fatalf("prepare %s: %v", config, err)
	}
	return h
}

// Attempt makes one attempt with a deadline.
func Attempt(t testing.TB, h probe.Handler, req probe.Request, timeout time.Duration) (probe.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	req.Spec.Timeout = timeout
	return h.Probe(ctx, req)
}

// Want checks the result and output of an attempt that must not be an error.
func Want(t testing.TB, got probe.Outcome, err error, result probe.Result, output string) {
	t.Helper()
	if err != nil || got.Result != result || got.Output != output {
		t.Errorf("got %v, output %q, error %v; want %v, output %q", got.Result, got.Output, err, result, output)
	}
}

// WantReason checks the reason of an attempt.
func WantReason(t testing.TB, got probe.Outcome, reason probe.Reason) {
	t.Helper()
	if got.Reason != reason {
		t.Errorf("reason %q, want %q (output %q)", got.Reason, reason, got.Output)
	}
}

// Serve starts an HTTP server on loopback and returns it with its port.
func Serve(t testing.TB, h http.HandlerFunc) (s *httptest.Server, port int) {
	t.Helper()
	s = httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients close connections on purpose
	s.Start()
	t.Cleanup(s.Close)
	return s, PortOf(t, s.Listener.Addr())
}

// PortOf returns the port of a.
func PortOf(t testing.TB, a net.Addr) int {
	t.Helper()
	_, text, err := net.SplitHostPort(a.String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Loopback returns a listener on loopback and its port.
func Loopback(t testing.TB) (l net.Listener, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l, PortOf(t, l.Addr())
}

// Listen accepts connections on loopback and closes them when the test ends.
func Listen(t testing.TB, network, address string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr()
}

// SocketPath returns a short path for a new socket, regardless of TMPDIR.
func SocketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(plugin.SocketTemp(), "prober-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// Peer accepts connections on loopback and calls serve with each. serve may block until the connection is
// closed at the end of the test.
func Peer(t *testing.T, serve func(c net.Conn)) (port int) {
	t.Helper()
	l, port := Loopback(t)
	var serving sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			serving.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return port
}

// Silent reads from c and never answers.
func Silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// PrepareAt binds p to config and target.
func PrepareAt(t *testing.T, p probe.Preparer, config string, target probe.Target) probe.Handler {
	t.Helper()
	h, err := p.Prepare([]byte(config), target)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Traced returns a handler that traces every attempt of h.
func Traced(h probe.Handler) probe.Handler {
	return probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
		req.Trace = func(probe.TraceEvent) {}
		return h.Probe(ctx, req)
	})
}

// ByNetHTTP returns a handler that makes every attempt of h with net/http. It adds an httptrace to the
// context, and only net/http calls that.
func ByNetHTTP(h probe.Handler) probe.Handler {
	return probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
		return h.Probe(httptrace.WithClientTrace(ctx, new(httptrace.ClientTrace)), req)
	})
}
