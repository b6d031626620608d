package httpprobe_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/probe"
)

// keptServer numbers its connections from 1, and records the requests.
type keptServer struct {
	port    int
	respond func(c net.Conn, request int) (goOn bool) // request counts the requests of a connection
	secure  *tls.Config                               // nil means without TLS
	ended   chan struct{}                             // receives an item for each connection that the probe closes

	mu      sync.Mutex
	conns   int
	arrived []int // number of the connection, for each request
	closing int   // number of requests with Connection: close
}

func serveKept(t *testing.T, secure *tls.Config, respond func(c net.Conn, request int) (goOn bool)) *keptServer {
	t.Helper()
	s := &keptServer{respond: respond, secure: secure, ended: make(chan struct{}, 100)}
	s.port = rig.Peer(t, s.serve)
	return s
}

func (s *keptServer) serve(c net.Conn) {
	defer c.Close()
	s.mu.Lock()
	s.conns++
	number := s.conns
	s.mu.Unlock()
	if s.secure != nil {
		c = tls.Server(c, s.secure)
		defer c.Close()
	}
	requests := bufio.NewReader(c)
	for n := 1; ; n++ {
		r, err := http.ReadRequest(requests)
		if err != nil {
			if errors.Is(err, io.EOF) {
				s.ended <- struct{}{}
			}
			return
		}
		s.mu.Lock()
		s.arrived = append(s.arrived, number)
		if r.Close {
			s.closing++
		}
		s.mu.Unlock()
		if !s.respond(c, n) {
			return
		}
	}
}

// want checks the numbers of the connections over which the requests arrived.
func (s *keptServer) want(t *testing.T, conns ...int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.arrived, conns) {
		t.Errorf("requests arrived at the connections %v, want %v", s.arrived, conns)
	}
}

// probe returns a handler that probes s. more is appended to the JSON of its config.
func (s *keptServer) probe(t *testing.T, cfg httpprobe.Config, more string) probe.Handler {
	t.Helper()
	scheme := "HTTP"
	if s.secure != nil {
		scheme = "HTTPS"
	}
	h := rig.Prepare(t, httpprobe.New(cfg), fmt.Sprintf(`{"host":"127.0.0.1","port":%d,"scheme":%q,"path":"/healthz"%s}`, s.port, scheme, more))
	t.Cleanup(func() { probe.Release(h) })
	return h
}

const reuse = `,"connection":"reuse"`

// says returns a respond function that sends the same answer to all requests.
func says(parts ...string) func(net.Conn, int) bool {
	return func(c net.Conn, _ int) bool {
		writes(parts...)(c)
		return true
	}
}

// once is like says for the first request of a connection, and then calls next.
func once(answer string, next func(net.Conn)) func(net.Conn, int) bool {
	return func(c net.Conn, request int) bool {
		if request > 1 {
			next(c)
			return false
		}
		return says(answer)(c, request)
	}
}

const okKept = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// reset closes a connection so that its peer sees a reset.
func reset(c net.Conn) {
	if s, ok := c.(*tls.Conn); ok {
		c = s.NetConn()
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func TestReuse(t *testing.T) {
	const success, failure = probe.Success, probe.Failure
	const timeout = probe.Unknown // stands for a Failure at the deadline; only these attempts have a short timeout
	certified := &tls.Config{Certificates: []tls.Certificate{certificate(t)}, NextProtos: []string{"http/1.1"}}
	for _, c := range []struct {
		name    string
		respond func(net.Conn, int) bool
		conns   []int          // connections of the requests
		results []probe.Result // results of the attempts
	}{
		{"length", says(okKept), []int{1, 1, 1}, []probe.Result{success, success, success}},
		{"length in parts", says("HTTP/1.1 200 OK\r\nContent-Le", "ngth: 2\r\nConnection: Keep-Alive\r\n\r\no", "k"), []int{1, 1, 1}, []probe.Result{success, success, success}},
		{"chunks", says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"), []int{1, 1, 1}, []probe.Result{success, success, success}},
		{"no content", says("HTTP/1.1 204 No Content\r\n\r\n"), []int{1, 1}, []probe.Result{success, success}},
		{"warning", says("HTTP/1.1 304 Not Modified\r\n\r\n"), []int{1, 1}, []probe.Result{probe.Warning, probe.Warning}},
		{"longest output", says("HTTP/1.1 200 OK\r\nContent-Length: 10240\r\n\r\n" + strings.Repeat("x", probe.MaxOutput)), []int{1, 1}, []probe.Result{success, success}},

		{"failure", says("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), []int{1, 2}, []probe.Result{failure, failure}},
		{"closing header", says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"), []int{1, 2}, []probe.Result{success, success}},
		{"HTTP/1.0", says("HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"), []int{1, 2}, []probe.Result{success, success}},
		{"body cut", says("HTTP/1.1 200 OK\r\nContent-Length: 20480\r\n\r\n" + strings.Repeat("x", 2*probe.MaxOutput)), []int{1, 2}, []probe.Result{success, success}},
		{"body ends with the connection", func(c net.Conn, _ int) bool {
			writes("HTTP/1.1 200 OK\r\n\r\nok")(c)
			return false
		}, []int{1, 2}, []probe.Result{success, success}},
		{"answer of net/http", says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\n\r\n"), []int{1, 2}, []probe.Result{success, success}},

		{"second answer in the packet", says(okKept + "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), []int{1, 2}, []probe.Result{success, success}},
		{"second answer after chunks", says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 500 No\r\n\r\n"), []int{1, 2}, []probe.Result{success, success}},
		{"a byte too much", says(okKept + "\n"), []int{1, 2}, []probe.Result{success, success}},

		{"closed after each answer", func(c net.Conn, _ int) bool {
			writes(okKept)(c)
			return false
		}, []int{1, 2, 3}, []probe.Result{success, success, success}},
		{"closed in place of an answer", once(okKept, func(net.Conn) {}), []int{1, 1, 2, 2, 3}, []probe.Result{success, success, success}},
		{"reset in place of an answer", once(okKept, reset), []int{1, 1, 2}, []probe.Result{success, success}},
		{"fresh connection closed too", func(c net.Conn, _ int) bool { return false }, []int{1, 2}, []probe.Result{failure, failure}},
		{"closed within an answer", once(okKept, writes("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")), []int{1, 1, 2}, []probe.Result{success, failure, success}},
		{"no answer", once(okKept, rig.Silent), []int{1, 1, 2}, []probe.Result{success, timeout, success}},
		{"half an answer", once(okKept, hangs("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")), []int{1, 1, 2}, []probe.Result{success, timeout, success}},
	} {
		for scheme, secure := range map[string]*tls.Config{"http": nil, "https": certified} {
			t.Run(c.name+"/"+scheme, func(t *testing.T) {
				t.Parallel()
				s := serveKept(t, secure, c.respond)
				h := s.probe(t, httpprobe.Config{}, reuse)
				for i, want := range c.results {
					limit := time.Minute
					if want == timeout {
						limit, want = 300*time.Millisecond, failure
					}
					if out, err := rig.Attempt(t, h, probe.Request{}, limit); err != nil || out.Result != want {
						t.Errorf("attempt %d: got %v, %q, %v; want %v", i+1, out.Result, out.Output, err, want)
					}
				}
				s.want(t, c.conns...)
				if s.closing > 0 {
					t.Errorf("%d requests with Connection: close", s.closing)
				}
			})
		}
	}
}

// TestReuseIgnoresLateAnswer sends a second answer between two attempts. Some servers do so: they close
// an idle connection with status 408.
func TestReuseIgnoresLateAnswer(t *testing.T) {
	certified := &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	for scheme, secure := range map[string]*tls.Config{"http": nil, "https": certified} {
		t.Run(scheme, func(t *testing.T) {
			attempted, sent := make(chan struct{}), make(chan struct{})
			s := serveKept(t, secure, func(c net.Conn, _ int) bool {
				writes(okKept)(c)
				if _, ok := <-attempted; ok {
					writes("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")(c)
					sent <- struct{}{}
				}
				return true
			})
			h := s.probe(t, httpprobe.Config{}, reuse)
			out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
			rig.Want(t, out, err, probe.Success, "ok")
			attempted <- struct{}{}
			<-sent
			close(attempted)
			out, err = rig.Attempt(t, h, probe.Request{}, time.Minute)
			rig.Want(t, out, err, probe.Success, "ok")
			s.want(t, 1, 2)
		})
	}
}

func TestReuseOverTLSAfterManyRequests(t *testing.T) {
	s := serveKept(t, &tls.Config{Certificates: []tls.Certificate{certificate(t)}}, says(okKept))
	h := s.probe(t, httpprobe.Config{}, reuse)
	for range 300 {
		out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
		rig.Want(t, out, err, probe.Success, "ok")
	}
	if s.conns != 1 {
		t.Errorf("%d connections", s.conns)
	}
}

func TestConnectionKey(t *testing.T) {
	for _, c := range []struct {
		more  string
		conns []int
	}{
		{``, []int{1, 2}},
		{`,"connection":null`, []int{1, 2}},
		{`,"connection":"fresh"`, []int{1, 2}},
		{reuse, []int{1, 1}},
	} {
		s := serveKept(t, nil, says(okKept))
		h := s.probe(t, httpprobe.Config{}, c.more)
		for range 2 {
			out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
			rig.Want(t, out, err, probe.Success, "ok")
		}
		s.want(t, c.conns...)
		if fresh := c.more != reuse; (s.closing == 2) != fresh {
			t.Errorf("%s: %d requests with Connection: close", c.more, s.closing)
		}
	}
	_, err := httpprobe.New(httpprobe.Config{}).Prepare([]byte(`{"connection":"keep"}`), probe.Target{})
	if want := `connection: unknown connection "keep"; known: fresh, reuse`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestReuseAtAnotherEndpoint(t *testing.T) {
	s := serveKept(t, nil, says(okKept))
	h, err := httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Port: s.port, Reuse: true})
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Release(h)
	for _, ip := range []string{"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.1"} {
		if ip == "127.0.0.2" { // nothing listens there
			out, err := rig.Attempt(t, h, probe.Request{PodIP: ip}, time.Minute)
			if err != nil || out.Reason != probe.ReasonConnectRefused {
				t.Errorf("got %v, %v", out, err)
			}
			<-s.ended
			continue
		}
		out, err := rig.Attempt(t, h, probe.Request{PodIP: ip}, time.Minute)
		rig.Want(t, out, err, probe.Success, "ok")
	}
	s.want(t, 1, 1, 2)
}

// TestReuseAsksTheGuard checks that a kept connection is not used if the guard now refuses its target.
func TestReuseAsksTheGuard(t *testing.T) {
	s := serveKept(t, nil, says(okKept))
	h, err := httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Port: s.port, Reuse: true})
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Release(h)
	var refused error
	ctx := netns.WithGuard(t.Context(), func(netns.To) error { return refused })
	req := probe.Request{PodIP: "127.0.0.1", Spec: probe.Spec{Timeout: time.Minute}}
	for range 2 {
		out, err := h.Probe(ctx, req)
		rig.Want(t, out, err, probe.Success, "ok")
	}
	refused = errors.New("not allowed any more")
	if out, err := h.Probe(ctx, req); out.Result == probe.Success || out.Reason != probe.ReasonDenied && probe.ReasonOf(err) != probe.ReasonDenied {
		t.Errorf("got %+v, %v", out, err)
	}
	s.want(t, 1, 1)
}

func TestReuseByOneAttemptAtATime(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	s := serveKept(t, nil, func(c net.Conn, request int) bool {
		if request == 1 {
			both.Done()
			both.Wait()
		}
		return says(okKept)(c, request)
	})
	h := s.probe(t, httpprobe.Config{}, reuse)
	var attempts sync.WaitGroup
	for range 2 {
		attempts.Go(func() {
			out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
			rig.Want(t, out, err, probe.Success, "ok")
		})
	}
	attempts.Wait()
	<-s.ended // the other connection is kept
	out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
	rig.Want(t, out, err, probe.Success, "ok")
	if len(s.arrived) != 3 || s.conns != 2 {
		t.Errorf("requests at %v of %d connections", s.arrived, s.conns)
	}
}

func TestTracedAttemptReusesConnection(t *testing.T) {
	s := serveKept(t, nil, says(okKept))
	h := s.probe(t, httpprobe.Config{}, reuse)
	for _, h := range []probe.Handler{h, rig.Traced(h), h} {
		out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
		rig.Want(t, out, err, probe.Success, "ok")
	}
	s.want(t, 1, 1, 1)
}

// TestReuseOfOtherConnections uses connections from the embedder's dial function.
func TestReuseOfOtherConnections(t *testing.T) {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	hidden := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return struct{ net.Conn }{conn}, err // hides the methods of syscall.Conn
	}
	for name, c := range map[string]struct {
		dial  func(context.Context, string, string) (net.Conn, error)
		conns []int
	}{
		"of package net": {dial, []int{1, 1, 1}},
		"wrapped":        {hidden, []int{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveKept(t, nil, says(okKept))
			h := s.probe(t, httpprobe.Config{DialContext: c.dial}, reuse)
			for range 3 {
				out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
				rig.Want(t, out, err, probe.Success, "ok")
			}
			s.want(t, c.conns...)
		})
	}
}

func TestReuseOverHTTP2IsFresh(t *testing.T) {
	var mu sync.Mutex
	conns := make(map[string]bool)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		conns[r.RemoteAddr] = true
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"port":%d,"scheme":"HTTPS","host":"127.0.0.1","connection":"reuse"}`, rig.PortOf(t, s.Listener.Addr())))
	for range 3 {
		out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
		rig.Want(t, out, err, probe.Success, "HTTP/2.0")
	}
	if len(conns) != 3 {
		t.Errorf("%d connections", len(conns))
	}
}

// TestKeptConnectionEnds checks when an unused connection is closed.
func TestKeptConnectionEnds(t *testing.T) {
	for name, c := range map[string]struct {
		period time.Duration
		idle   time.Duration
		end    func(h probe.Handler)
	}{
		"two periods":    {time.Hour, 2 * time.Hour, func(probe.Handler) {}},
		"without period": {0, 90 * time.Second, func(probe.Handler) {}},
		"release":        {time.Hour, 0, probe.Release},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveKept(t, nil, says(okKept))
			synctest.Test(t, func(t *testing.T) {
				h := s.probe(t, httpprobe.Config{}, reuse)
				req := probe.Request{Spec: probe.Spec{Period: c.period}}
				for range 2 {
					out, err := rig.Attempt(t, h, req, time.Minute)
					rig.Want(t, out, err, probe.Success, "ok")
				}
				if c.idle > 0 {
					time.Sleep(c.idle - 1)
					synctest.Wait()
					if len(s.ended) > 0 {
						t.Error("the connection is closed too early")
					}
				}
				c.end(h)
				time.Sleep(time.Nanosecond)
				synctest.Wait()
			})
			<-s.ended
			s.want(t, 1, 1)
		})
	}
}

func TestReleasedProbeKeepsNoConnection(t *testing.T) {
	answer := make(chan struct{})
	s := serveKept(t, nil, func(c net.Conn, request int) bool {
		<-answer
		return says(okKept)(c, request)
	})
	h := s.probe(t, httpprobe.Config{}, reuse)
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
		rig.Want(t, out, err, probe.Success, "ok")
	}()
	answer <- struct{}{}
	probe.Release(h)
	<-done
	<-s.ended
}

func TestHangOnKeptConnectionIsExplained(t *testing.T) {
	s := serveKept(t, nil, once(okKept, rig.Silent))
	h := s.probe(t, httpprobe.Config{}, reuse)
	out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
	rig.Want(t, out, err, probe.Success, "ok")
	out, err = rig.Attempt(t, h, probe.Request{}, 200*time.Millisecond)
	if err != nil || out.Result != probe.Failure || out.Reason != probe.ReasonDeadline {
		t.Errorf("got %+v, %v", out, err)
	}
	rig.WantWaiting(t, rig.Detail(t, out, "waiting"), `^http tcp 127.0.0.1:\d+: waiting for .*; no response headers; on the connection of an earlier attempt; \d+ bytes sent, 0 received$`)
}
