package wasm_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// serve starts a server that echoes each line.
func serve(t testing.TB, network, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				line, err := bufio.NewReader(conn).ReadString('\n')
				if err == nil {
					_, _ = io.WriteString(conn, line)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l
}

// socketPath returns a short path for a new socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(plugin.SocketTemp(), "prober-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func TestGuestDialsItsTarget(t *testing.T) {
	l := serve(t, "tcp", "127.0.0.1:0")
	got, err := attempt(t, bind(t, goGuest(t), `{"do":"echo"}`, targetOf(l)), probe.Request{Target: targetOf(l)}, 5*time.Second)
	if want := "hello via " + l.Addr().String(); err != nil || got.Output != want {
		t.Errorf("got %q, %v, want %q", got.Output, err, want)
	}
}

func TestGuestDialsUnixSocket(t *testing.T) {
	path := socketPath(t)
	serve(t, "unix", path)
	target := probe.Target{Unix: path}
	got, err := attempt(t, bind(t, goGuest(t), `{"do":"echo"}`, target), probe.Request{Target: target}, 5*time.Second)
	if want := "hello via " + path; err != nil || got.Output != want {
		t.Errorf("got %q, %v, want %q", got.Output, err, want)
	}
}

func TestGuestReadsLastError(t *testing.T) {
	target := probe.Target{Host: "127.0.0.1", Port: 1}
	got, err := attempt(t, bind(t, goGuest(t), `{"do":"echo"}`, target), probe.Request{Target: target}, 5*time.Second)
	want := "dial tcp " + deadAddr + ": connect: connection refused"
	if err != nil || got.Result != probe.Failure || got.Output != want || got.Reason != probe.ReasonConnectRefused {
		t.Errorf("got %+v, %v, want %q", got, err, want)
	}
}

func TestUnknownCapabilities(t *testing.T) {
	m := plugin.Minimal("greedy")
	m.Requests = []plugin.Request{{Capability: "net"}, {Capability: "dns", Optional: true}}
	p, err := host.Load(t.Context(), plugin.Found{Module: guestFile(t, "ok"), Manifest: m})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m.Requests[1].Optional = false
	_, err = host.Load(t.Context(), plugin.Found{Module: guestFile(t, "ok"), Manifest: m})
	if probe.ReasonOf(err) != probe.ReasonDenied || err.Error() != `plugin "greedy": the capability "dns" is not granted` {
		t.Errorf("got %v", err)
	}
}

func TestNetHTTPInsideAGuest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			w.Write(make([]byte, 200<<10))
			return
		}
		fmt.Fprintf(w, "hello %s", r.URL.Path)
	}))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	target := probe.Target{Host: u.Hostname(), Port: port}
	for config, want := range map[string]string{
		`{"do":"get","path":"/a"}`:        "200 hello /a",
		`{"do":"getDefault","path":"/b"}`: "200 hello /b",
	} {
		got, err := attempt(t, bind(t, goGuest(t), config, target), probe.Request{Target: target}, 10*time.Second)
		if err != nil || got.Output != want {
			t.Errorf("%s: got %q, %v, want %q", config, got.Output, err, want)
		}
	}
	got, err := attempt(t, bind(t, goGuest(t), `{"do":"get","path":"/long"}`, target), probe.Request{Target: target}, 10*time.Second)
	if err != nil || len(got.Output) != probe.MaxOutput {
		t.Errorf("got %d bytes, %v, want a body of 200 KiB, cut", len(got.Output), err)
	}
}

func TestNetHTTPInsideAGuestTimesOut(t *testing.T) {
	target := blackHole(t)
	got, err := overrun(t, bind(t, goGuest(t), `{"do":"get"}`, target), probe.Request{Target: target}, 200*time.Millisecond)
	if want := probe.TimedOut(200 * time.Millisecond); err != nil || got.Output != want.Output || got.Result != want.Result {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestDialsElsewhereAreDenied(t *testing.T) {
	other := serve(t, "tcp", "127.0.0.1:0")
	target := targetOf(serve(t, "tcp", "127.0.0.1:0"))
	socket := socketPath(t)
	serve(t, "unix", socket)
	for name, c := range map[string]struct{ network, addr string }{
		"another port":             {"tcp", other.Addr().String()},
		"another address":          {"tcp", fmt.Sprintf("127.0.0.2:%d", target.Port)},
		"a name":                   {"tcp", fmt.Sprintf("localhost:%d", target.Port)},
		"a socket":                 {"unix", socket},
		"an IPv4-mapped address":   {"tcp", fmt.Sprintf("[::ffff:127.0.0.2]:%d", target.Port)},
		"an octal address":         {"tcp", fmt.Sprintf("0177.0.0.1:%d", target.Port)},
		"a decimal address":        {"tcp", fmt.Sprintf("2130706433:%d", target.Port)},
		"the unspecified address":  {"tcp", fmt.Sprintf("0.0.0.0:%d", target.Port)},
		"a metadata address":       {"tcp", fmt.Sprintf("169.254.169.254:%d", target.Port)},
		"IPv6 loopback, same port": {"tcp", fmt.Sprintf("[::1]:%d", target.Port)},
	} {
		t.Run(name, func(t *testing.T) {
			denied := 0
			req := probe.Request{Target: target, Debug: true, Trace: func(e probe.TraceEvent) {
				if e.Type == probe.TraceDenied {
					denied++
				}
			}}
			config := fmt.Sprintf(`{"do":"dial","network":%q,"addr":%q}`, c.network, c.addr)
			before := goGuest(t).Stats()
			got, err := attempt(t, bind(t, goGuest(t), config, target), req, 5*time.Second)
			if err != nil || got.Result != probe.Failure || got.Reason != probe.ReasonDenied || !strings.Contains(got.Output, ": denied: ") || !strings.HasSuffix(got.Output, "; permission=true") {
				t.Errorf("got %+v, %v, want a denial", got, err)
			}
			if after := goGuest(t).Stats(); after.Denied != before.Denied+1 || after.Busy != 0 {
				t.Errorf("got %+v after %+v, want one more denial", after, before)
			}
			if denied != 1 {
				t.Errorf("%d denials traced, want 1", denied)
			}
		})
	}
	t.Run("the target by an equal address", func(t *testing.T) {
		config := fmt.Sprintf(`{"do":"dial","addr":"[::ffff:127.0.0.1]:%d"}`, target.Port)
		got, err := attempt(t, bind(t, goGuest(t), config, target), probe.Request{Target: target}, 5*time.Second)
		if err != nil || got.Result != probe.Success {
			t.Errorf("got %+v, %v, want a connection", got, err)
		}
	})
}

func TestCustomDialer(t *testing.T) {
	dialed := make(chan string, 1)
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"),
		Logger:   slog.New(slog.DiscardHandler),
		DialContext: func(_ context.Context, network, addr string) (net.Conn, error) {
			dialed <- network + " " + addr
			return nil, errors.New("the wire is cut")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p := load(t, h, "hang", plugin.Reset)
	target := probe.Target{Host: "10.1.2.3", Port: 99}
	_, err = attempt(t, p, probe.Request{Target: target}, 5*time.Second)
	if got := <-dialed; got != "tcp 10.1.2.3:99" {
		t.Errorf("dialled %q", got)
	}
	if probe.ReasonOf(err) != probe.ReasonGuest {
		t.Errorf("got %v, want the guest's own error: it used a handle that it did not get", err)
	}
}

// TestTargetAddressClasses makes a guest dial its target, and checks what the host dials.
func TestTargetAddressClasses(t *testing.T) {
	names := map[string][]string{
		"db":        {"10.0.0.9"},
		"mixed":     {"127.0.0.1", "169.254.169.254", "10.0.0.9"},
		"meta":      {"169.254.169.254"},
		"loop":      {"127.0.0.1"},
		"mapped":    {"::ffff:169.254.169.254"},
		"localhost": {"127.0.0.1"},
	}
	var dialed []string // addresses of the running attempt
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"),
		DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			dialed = append(dialed, addr)
			return nil, errors.New("no wire")
		},
		LookupIP: func(_ context.Context, name string) ([]netip.Addr, error) {
			var addrs []netip.Addr
			for _, text := range names[name] {
				addrs = append(addrs, netip.MustParseAddr(text))
			}
			return addrs, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	hang := load(t, h, "hang", plugin.Reset)
	for _, c := range []struct {
		name, host, podIP string
		want              []string
	}{
		{"an address", "10.0.0.7", "", []string{"10.0.0.7:80"}},
		{"a name", "db", "", []string{"10.0.0.9:80"}},
		{"the pod's own address", "10.0.0.7", "10.0.0.7", []string{"10.0.0.7:80"}},
		{"a name with addresses of several kinds", "mixed", "10.0.0.7", []string{"10.0.0.9:80"}},
		{"loopback, named", "127.0.0.1", "10.0.0.7", []string{"127.0.0.1:80"}},
		{"loopback, named for IPv6", "::1", "", []string{"[::1]:80"}},
		{"loopback as localhost", "localhost", "10.0.0.7", []string{"127.0.0.1:80"}},
		{"loopback behind a name", "loop", "10.0.0.7", nil},
		{"loopback behind a name, where it is the pod's own", "loop", "127.0.0.1", []string{"127.0.0.1:80"}},
		{"metadata, named", "169.254.169.254", "10.0.0.7", nil},
		{"metadata as the pod's own", "169.254.169.254", "169.254.169.254", nil},
		{"metadata behind a name", "meta", "10.0.0.7", nil},
		{"metadata, mapped", "::ffff:169.254.169.254", "", nil},
		{"metadata, mapped behind a name", "mapped", "", nil},
		{"metadata by NAT64", "64:ff9b::a9fe:a9fe", "", nil},
		{"metadata by 6to4", "2002:a9fe:a9fe::", "", nil},
		{"metadata, IPv4-compatible", "::169.254.169.254", "", nil},
		{"metadata of one cloud", "fd00:ec2::254", "", nil},
		{"metadata of another", "100.100.100.200", "", nil},
		{"link-local", "fe80::1%eth0", "", nil},
		{"unspecified", "0.0.0.0", "127.0.0.1", nil},
		{"multicast", "224.0.0.1", "", nil},
		{"broadcast", "255.255.255.255", "", nil},
		{"nowhere", "", "", nil},
		{"a name without addresses", "none", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dialed = nil
			req := probe.Request{Target: probe.Target{Host: c.host, Port: 80}, PodIP: c.podIP}
			if _, err := attempt(t, hang, req, 5*time.Second); probe.ReasonOf(err) != probe.ReasonGuest {
				t.Errorf("got %v, want the guest's own error", err)
			}
			if diff := cmp.Diff(c.want, dialed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestGoGuestDialsChangedTarget checks that the guest dials the target of the current request, and that
// the host decides by the same request.
func TestGoGuestDialsChangedTarget(t *testing.T) {
	target := targetOf(serve(t, "tcp", "127.0.0.1:0"))
	got, err := attempt(t, bind(t, goGuest(t), fmt.Sprintf(`{"do":"elsewhere","port":%d}`, target.Port), target), probe.Request{Target: target}, 5*time.Second)
	if err != nil || got.Result != probe.Success {
		t.Errorf("the same port: got %+v, %v", got, err)
	}
	for range 2 { // the second request is equal
		got, err = attempt(t, bind(t, goGuest(t), `{"do":"elsewhere","port":1}`, target), probe.Request{Target: target}, 5*time.Second)
		if want := "dial tcp " + target.Host + ":1: denied: "; err != nil || !strings.HasPrefix(got.Output, want) {
			t.Errorf("another port: got %+v, %v, want %q", got, err, want)
		}
	}
}

func TestErrorsOfGoGuestNameTarget(t *testing.T) {
	target := targetOf(serve(t, "tcp", "127.0.0.1:0"))
	got, err := attempt(t, bind(t, goGuest(t), `{"do":"closed"}`, target), probe.Request{Target: target}, 5*time.Second)
	if want := fmt.Sprintf("read tcp %s:%d: use of closed network connection", target.Host, target.Port); err != nil || got.Output != want {
		t.Errorf("got %+v, %v, want %q", got, err, want)
	}
}

func TestGoGuestReadsBesideNewGoroutine(t *testing.T) {
	target := accept(t, func(conn net.Conn) {
		<-time.After(30 * time.Millisecond) // let the other goroutine begin
		_, _ = io.WriteString(conn, "late")
		_ = conn.Close()
	})
	got, err := attempt(t, bind(t, goGuest(t), `{"do":"joined"}`, target), probe.Request{Target: target}, 5*time.Second)
	if err != nil || got.Output != "late" {
		t.Errorf("got %+v, %v", got, err)
	}
}
