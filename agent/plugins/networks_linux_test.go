package plugins_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/internal/netnstest"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
)

// longService is too long for the grpc handler's own frames, so that grpc-go makes the attempt.
var longService = strings.Repeat("s", 3000)

// answers has the responses of the servers in one namespace. The ports of 127.0.0.1 are the same in all
// namespaces.
type answers struct {
	text    string // of http, and the banner of port 7070
	serving healthpb.HealthCheckResponse_ServingStatus
	record  [4]byte // of DNS
	hops    int     // of echo replies
	open    bool    // port 6060
}

var (
	first  = answers{"a", healthpb.HealthCheckResponse_SERVING, [4]byte{10, 0, 0, 1}, 64, true}
	second = answers{"b", healthpb.HealthCheckResponse_NOT_SERVING, [4]byte{10, 0, 0, 2}, 99, false}
)

// serveIn starts the servers in a new namespace.
func serveIn(t *testing.T, says answers) *netnstest.Net {
	t.Helper()
	n := netnstest.New(t)
	listen := func(port int) (l net.Listener) {
		t.Helper()
		var err error
		n.Do(func() { l, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port)) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, "https://127.0.0.1:8443/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, says.text)
	})
	for port, secure := range map[int]bool{8080: false, 8443: true} {
		s := httptest.NewUnstartedServer(handler)
		_ = s.Listener.Close()
		s.Listener, s.EnableHTTP2, s.Config.ErrorLog = listen(port), true, log.New(io.Discard, "", 0)
		if secure {
			s.StartTLS()
			serveHealth(t, listen(9443), says.serving, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: s.TLS.Certificates})))
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
	}
	serveHealth(t, listen(9090), says.serving)
	accept(t, listen(7070), says.text+"\n")
	if says.open {
		accept(t, listen(6060), "")
	}
	serveNames(t, n, says.record)
	var err error
	n.Do(func() {
		err = os.WriteFile("/proc/sys/net/ipv4/ip_default_ttl", fmt.Append(nil, says.hops), 0)
		if says.open { // datagrams in one namespace, raw sockets in the other
			err = errors.Join(err, os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func serveHealth(t *testing.T, l net.Listener, says healthpb.HealthCheckResponse_ServingStatus, options ...grpc.ServerOption) {
	t.Helper()
	status := health.NewServer()
	status.SetServingStatus("", says)
	status.SetServingStatus(longService, says)
	s := grpc.NewServer(options...)
	healthpb.RegisterHealthServer(s, status)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		s.Stop()
		serving.Wait()
	})
}

// accept writes banner to each connection, and closes it.
func accept(t *testing.T, l net.Listener, banner string) {
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, banner)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
}

// serveNames responds to each DNS query with record.
func serveNames(t *testing.T, n *netnstest.Net, record [4]byte) {
	t.Helper()
	var packets net.PacketConn
	var err error
	n.Do(func() { packets, err = net.ListenPacket("udp4", "127.0.0.1:53") })
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		buf := make([]byte, 4096)
		for {
			size, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:size]) != nil {
				continue
			}
			m.Response, m.Additionals = true, nil
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 60},
				Body:   &dnsmessage.AResource{A: record},
			}}
			if reply, err := m.Pack(); err == nil {
				_, _ = packets.WriteTo(reply, from)
			}
		}
	})
	t.Cleanup(func() {
		_ = packets.Close()
		serving.Wait()
	})
}

// newSet returns a Set with the network namespaces of pathOf.
func newSet(t *testing.T, pathOf func(uid string) (path string, ok bool)) *plugins.Set {
	t.Helper()
	s, _, err := plugins.New(t.Context(), plugins.Config{
		StateDir: t.TempDir(), Runner: &builtin.HostRunner{}, Metrics: metrics.New(metrics.Config{}), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if pathOf != nil {
		s.SetNetworks(pathOf, nil, nil)
	}
	return s
}

// inPod returns a request for a pod, whose address is not a loopback address.
func inPod(uid string, target probe.Target) probe.Request {
	return probe.Request{
		Pod: &probe.Pod{Namespace: "shop", Name: "pod-" + uid, UID: uid}, PodIP: "10.0.0.7", Target: target,
		Spec: probe.Spec{Timeout: time.Minute, Period: time.Minute},
	}
}

// kinds are the tested probes, with the outcome expected in each namespace.
var kinds = []struct {
	name, handler, config string
	port                  int
	netHTTP               bool // net/http makes the whole attempt
	first, second         string
}{
	{name: "tcp", handler: "tcp", config: `{"host":"127.0.0.1","port":6060}`, first: "success", second: "failure connect_refused"},
	{name: "tcp of a name", handler: "tcp", config: `{"host":"localhost","port":6060}`, first: "success", second: "failure connect_refused"},
	{name: "http", handler: "http", config: `{"host":"127.0.0.1","port":8080}`, first: "success a", second: "success b"},
	{name: "http of a name", handler: "http", config: `{"host":"localhost","port":8080}`, first: "success a", second: "success b"},
	{name: "http of any address", handler: "http", config: `{"host":"0.0.0.0","port":8080}`, first: "success a", second: "success b"},
	{name: "http by net/http", handler: "http", config: `{"host":"127.0.0.1","port":8080}`, netHTTP: true, first: "success a", second: "success b"},
	{name: "https", handler: "http", config: `{"host":"127.0.0.1","port":8443,"scheme":"HTTPS"}`, first: "success a", second: "success b"},
	{name: "https by net/http", handler: "http", config: `{"host":"127.0.0.1","port":8443,"scheme":"HTTPS"}`, netHTTP: true, first: "success a", second: "success b"},
	{name: "redirect to https", handler: "http", config: `{"host":"127.0.0.1","port":8080,"path":"/redirect"}`, first: "success a", second: "success b"},
	{name: "grpc", handler: "grpc", config: `{"port":9090}`, first: "success", second: "failure"},
	{name: "grpc with TLS", handler: "grpc", config: `{"port":9443,"mode":"TLS"}`, first: "success", second: "failure"},
	{name: "grpc by grpc-go", handler: "grpc", config: `{"port":9090,"service":"` + longService + `"}`, first: "success", second: "failure"},
	{name: "plugin over tcp", handler: "expect", config: `{"queryResponse":[{"expect":"^a$"}]}`, port: 7070, first: "success", second: "failure"},
	{name: "plugin over http", handler: "httpcheck", config: `{"failIfBodyNotMatchesRegexp":["^a$"]}`, port: 8080, first: "success", second: "failure"},
	{
		name: "plugin over udp", handler: "dns", config: `{"queryName":"db.internal","queryType":"A","validateAnswerRrs":{"failIfNoneMatchesRegexp":["10\\.0\\.0\\.1$"]}}`, port: 53,
		first: "success", second: "failure",
	},
	{name: "plugin of icmp", handler: "icmp", config: `{}`, port: 1, first: "success 64 hops", second: "success 99 hops"},
}

// shown returns the part of an outcome that the test compares.
func shown(handler string, out probe.Outcome) string {
	switch {
	case handler == "http" && out.Result == probe.Success:
		return "success " + out.Output
	case handler == "tcp" && out.Result == probe.Failure:
		return "failure " + string(out.Reason)
	case handler == "icmp":
		for _, m := range out.Metrics {
			if m.Name == "icmp_reply_hop_limit" {
				return fmt.Sprintf("%s %v hops", out.Result, m.Value)
			}
		}
	}
	return out.Result.String()
}

func threadNamespace(t *testing.T) string {
	t.Helper()
	name, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestProbesUseNetworkOfTheirPod makes 200 attempts of each kind, half of them in each of two namespaces with
// the same addresses.
func TestProbesUseNetworkOfTheirPod(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	paths := map[string]string{"a": serveIn(t, first).Path, "b": serveIn(t, second).Path}
	s := newSet(t, func(uid string) (string, bool) {
		path, ok := paths[uid]
		return path, ok
	})
	home := threadNamespace(t)
	var wg sync.WaitGroup
	for i := range kinds {
		kind := &kinds[i]
		target := probe.Target{Host: "127.0.0.1", Port: kind.port}
		for uid, want := range map[string]string{"a": kind.first, "b": kind.second} {
			h, err := s.Prepare(kind.handler, []byte(kind.config), target)
			if err != nil {
				t.Fatal(kind.name, err)
			}
			defer probe.Release(h)
			for range 2 {
				wg.Go(func() {
					ctx := t.Context()
					if kind.netHTTP {
						ctx = httptrace.WithClientTrace(ctx, new(httptrace.ClientTrace))
					}
					for done := 0; done < 50 && !t.Failed(); {
						ctx, cancel := context.WithTimeout(ctx, time.Minute)
						out, err := h.Probe(ctx, inPod(uid, target))
						cancel()
						if now := threadNamespace(t); now != home {
							t.Errorf("%s: a goroutine runs in %s, not in %s", kind.name, now, home)
						}
						if errors.Is(err, probe.ErrNoSlot) {
							continue
						}
						if got := shown(kind.handler, out); err != nil || got != want {
							t.Errorf("%s in %s: got %s, %q, %v; want %s", kind.name, uid, got, out.Output, err, want)
						}
						done++
					}
				})
			}
		}
	}
	wg.Wait()
	if got := netnstest.Open(t); got != 2 {
		t.Errorf("%d namespaces are open, want one for each path", got)
	}
}

// TestNamespacesAreClosedWithTheirProbes includes a pod whose sandbox is created again.
func TestNamespacesAreClosedWithTheirProbes(t *testing.T) {
	one, other := serveIn(t, first), serveIn(t, second)
	path := one.Path
	s := newSet(t, func(string) (string, bool) { return path, true })
	ask := func(h probe.Handler, want string) {
		t.Helper()
		out, err := h.Probe(t.Context(), inPod("a", probe.Target{}))
		if err != nil || out.Output != want {
			t.Errorf("got %+v, %v, want %s", out, err, want)
		}
	}
	var all []probe.Handler
	for range 3 {
		h, err := s.Prepare("http", []byte(`{"host":"127.0.0.1","port":8080}`), probe.Target{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
		ask(h, "a")
	}
	wantOpen := func(want int) {
		t.Helper()
		if got := netnstest.Open(t); got != want {
			t.Errorf("%d namespaces are open, want %d", got, want)
		}
	}
	wantOpen(1)
	path = other.Path
	ask(all[0], "b")
	wantOpen(2)
	probe.Release(all[1])
	probe.Release(all[2])
	wantOpen(1)
	probe.Release(all[0])
	wantOpen(0)
	_, err := all[0].Probe(t.Context(), inPod("a", probe.Target{}))
	if err == nil || !strings.HasSuffix(err.Error(), "the probe has ended") {
		t.Errorf("after its end: %v", err)
	}
	wantOpen(0)
}

func TestAttemptWithoutNamespaceHasNoVerdict(t *testing.T) {
	n := serveIn(t, first)
	path := filepath.Join(t.TempDir(), "net")
	if err := os.Symlink(n.Path, path); err != nil {
		t.Fatal(err)
	}
	var known string
	s := newSet(t, func(string) (string, bool) { return known, true })
	for _, name := range []string{"tcp", "http", "grpc", "expect"} {
		config := `{"port":1}`
		if name == "expect" {
			config = `{"queryResponse":[{"expect":"^a$"}]}`
		}
		target := probe.Target{Host: "127.0.0.1", Port: 1}
		h, err := s.Prepare(name, []byte(config), target)
		if err != nil {
			t.Fatal(err)
		}
		wantError := func(want string) {
			t.Helper()
			out, err := h.Probe(t.Context(), inPod("a", target))
			if err == nil || err.Error() != want || probe.ReasonOf(err) != probe.ReasonHostResources || out.Result != probe.Unknown {
				t.Errorf("%s: got %+v, %v, want the error %s", name, out, err, want)
			}
		}
		known = ""
		wantError("pod shop/pod-a: its network namespace is not known yet")
		known = "/none"
		wantError("pod shop/pod-a: network namespace /none: open: no such file or directory")
		known = path
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if out, err := h.Probe(ctx, inPod("a", target)); err != nil || out.Result != probe.Failure {
			t.Errorf("%s: got %+v, %v, want a failure", name, out, err)
		}
		cancel()
		if err := os.Rename(path, path+".gone"); err != nil {
			t.Fatal(err)
		}
		wantError("pod shop/pod-a: network namespace " + path + ": open: no such file or directory")
		if err := os.Rename(path+".gone", path); err != nil {
			t.Fatal(err)
		}
		probe.Release(h)
	}
	if got := netnstest.Open(t); got != 0 {
		t.Errorf("%d namespaces are open", got)
	}
}

// TestHostNetworkPodsUseAgentNetwork has a source of networks, and a pod without a network of its own.
func TestHostNetworkPodsUseAgentNetwork(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accept(t, l, "")
	for name, of := range map[string]func(string) (string, bool){
		"no network":          func(string) (string, bool) { return "", false },
		"no source of any":    nil,
		"another pod has one": func(uid string) (string, bool) { return "/none", uid == "b" },
	} {
		h, err := newSet(t, of).Prepare("tcp", fmt.Appendf(nil, `{"host":"127.0.0.1","port":%d}`, l.Addr().(*net.TCPAddr).Port), probe.Target{})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := h.Probe(t.Context(), inPod("a", probe.Target{})); err != nil || out.Result != probe.Success {
			t.Errorf("%s: got %+v, %v", name, out, err)
		}
		if out, err := h.Probe(t.Context(), probe.Request{}); err != nil || out.Result != probe.Success {
			t.Errorf("%s, without a pod: got %+v, %v", name, out, err)
		}
		probe.Release(h)
	}
}

// TestPodPathToAgentNamespaceIsRefused has a source with a path to the agent's own namespace. Servers on its
// loopback must not be reachable.
func TestPodPathToAgentNamespaceIsRefused(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accept(t, l, "")
	h, err := newSet(t, func(string) (string, bool) { return "/proc/self/ns/net", true }).
		Prepare("tcp", fmt.Appendf(nil, `{"host":"127.0.0.1","port":%d}`, l.Addr().(*net.TCPAddr).Port), probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Release(h)
	out, err := h.Probe(t.Context(), inPod("a", probe.Target{}))
	if want := "pod shop/pod-a: its network namespace is the agent's"; err == nil || err.Error() != want || !probe.IsHostTrouble(err) {
		t.Errorf("got %+v, %v, want %s", out, err, want)
	}
	if got := netnstest.Open(t); got != 0 {
		t.Errorf("%d namespaces are open", got)
	}
}

func BenchmarkInNetwork(b *testing.B) {
	for _, c := range []struct {
		name string
		of   func(string) (string, bool)
	}{{"source=none", nil}, {"source=other pods", func(uid string) (string, bool) { return "/none", uid == "b" }}} {
		b.Run(c.name, func(b *testing.B) {
			s, _, err := plugins.New(b.Context(), plugins.Config{
				StateDir: b.TempDir(), Runner: quick{}, Metrics: metrics.New(metrics.Config{}), Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			if c.of != nil {
				s.SetNetworks(c.of, nil, nil)
			}
			h, err := s.Prepare("exec", []byte(`{"command":["true"]}`), probe.Target{})
			if err != nil {
				b.Fatal(err)
			}
			req := inPod("a", probe.Target{})
			b.ReportAllocs()
			for b.Loop() {
				if out, err := h.Probe(b.Context(), req); err != nil || out.Result != probe.Success {
					b.Fatal(out, err)
				}
			}
		})
	}
}

// quick is a runner that does nothing.
type quick struct{}

func (quick) RunInContainer(context.Context, string, []string, time.Duration) ([]byte, error) {
	return nil, nil
}
