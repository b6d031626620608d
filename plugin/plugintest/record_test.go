package plugintest_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/probe"
)

// attempt describes an attempt for [record].
type attempt struct {
	module string // "": guest
	cfg    wasm.Config
	target probe.Target
	config string
	grants []string
	redact func(string) string

	timeout time.Duration // 0: long enough for every attempt
}

// record records an attempt at real servers. It returns the path of the session and the outcome.
func record(t *testing.T, a attempt) (path string, out probe.Outcome) {
	t.Helper()
	a.cfg.CacheDir = cache
	rec := plugintest.NewRecorder()
	rec.Wrap(&a.cfg)
	a.module = cmp.Or(a.module, guest)
	module, err := os.ReadFile(a.module)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := plugin.ReadModule(a.module, module)
	if err != nil {
		t.Fatal(err)
	}
	grants, err := plugin.ParseGrants(append(a.grants, "target"))
	if err != nil {
		t.Fatal(err)
	}
	host, err := wasm.New(a.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	loaded, err := host.Load(t.Context(), plugin.Found{Module: module, Manifest: manifest, Grants: grants})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := loaded.Prepare([]byte(a.config), a.target)
	if err != nil {
		t.Fatal(err)
	}
	req := probe.Request{Target: a.target, Spec: probe.Spec{Timeout: cmp.Or(a.timeout, 2*time.Minute)}, Redact: a.redact, PodIP: "127.0.0.1", Pod: &probe.Pod{Name: "web", Labels: map[string]string{"a": "b"}}}
	ctx, cancel := context.WithTimeout(t.Context(), req.Spec.Timeout)
	defer cancel()
	rec.Begin()
	out, err = handler.Probe(ctx, req)
	rec.Note(req, []byte(a.config), grants, out, err)
	if err != nil {
		t.Error(err)
	}
	path = filepath.Join(t.TempDir(), "testdata", "session.yaml")
	if err := rec.Write(path); err != nil {
		t.Fatal(err)
	}
	return path, out
}

// replay checks that a session replays with the recorded result and message.
func replay(t *testing.T, path string, want probe.Outcome) *plugintest.File {
	t.Helper()
	f := load(t, fmt.Sprintf("- name: without want\n  replay: %s\n- name: with want\n  replay: %s\n  want: {result: %s, message: %q}\n", path, path, want.Result, want.Output))
	for _, r := range run(t, f, plugintest.Config{CasesOnly: true}).Results {
		if !r.OK() {
			text, _ := os.ReadFile(path)
			t.Errorf("%s: %q\n%s%q\n%s", r.Name, r.Failures, r.Diff, r.Trace, text)
		}
	}
	return f
}

// serve answers connections on the loopback interface until the test ends.
func serve(t *testing.T, answer func(net.Conn)) probe.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
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
			answer(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return probe.Target{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
}

func webTarget(t *testing.T, s *httptest.Server) probe.Target {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return probe.Target{Host: host, Port: n}
}

func contents(t *testing.T, path string, wants ...string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestReplayTakesRecordedTextLiterally records bytes that would be expressions in a script.
func TestReplayTakesRecordedTextLiterally(t *testing.T) {
	t.Parallel()
	target := serve(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 100))
		fmt.Fprint(c, "${answer} $${}\n")
	})
	path, out := record(t, attempt{target: target, config: `{"say":"${ask}\n"}`})
	if out.Output != "${answer} $${}\n" {
		t.Fatalf("recorded %q", out.Output)
	}
	replay(t, path, out)
}

func TestReplayMatchesConnections(t *testing.T) {
	t.Parallel()
	target := serve(t, func(c net.Conn) {
		buf := make([]byte, 100)
		n, _ := c.Read(buf)
		fmt.Fprintf(c, "you said %q\x00", buf[:n])
	})
	path, out := record(t, attempt{target: target, config: `{"do":"talks","says":["one","two"]}`})
	if want := "you said \"one\"\x00you said \"two\"\x00"; out.Output != want {
		t.Fatalf("got %q", out.Output)
	}
	contents(t, path, "kind: PluginSession", "- recv: {text: one}", "close: {}", "pod: {name: web, labels: {a: b}}", "want: {result: success} # you said")
	replay(t, path, out)
	// The connections may be made in the other order.
	f := load(t, fmt.Sprintf("- name: x\n  replay: %s\n  request: {config: {do: talks, says: [two, one]}}\n  want: {result: success, message: /two.*one/}\n", path))
	if r := run(t, f, plugintest.Config{CasesOnly: true}).Results[0]; !r.OK() {
		t.Errorf("%q\n%s", r.Failures, r.Diff)
	}
	// A case can add a message to the session's result.
	f = load(t, fmt.Sprintf("- name: x\n  replay: %[1]s\n  want: {message: /one.*two/}\n- name: y\n  replay: %[1]s\n  want: {message: nothing}\n", path))
	results := run(t, f, plugintest.Config{CasesOnly: true}).Results
	if !results[0].OK() || results[1].OK() || strings.Contains(results[1].Diff, "+result") {
		t.Errorf("got %q and\n%s, want the second to fail for its message", results[0].Failures, results[1].Diff)
	}
	// A different request does not match. The failure names the line in the session.
	f = load(t, fmt.Sprintf("- name: x\n  replay: %s\n  request: {config: {do: talks, says: [one, other]}}\n", path))
	r := run(t, f, plugintest.Config{CasesOnly: true}).Results[0]
	if all := strings.Join(r.Failures, "\n"); !strings.Contains(all, "session.yaml:") || !strings.Contains(all, `got "other", want "two"`) {
		t.Errorf("got %s", all)
	}
}

func TestReplayMatchesRefusal(t *testing.T) {
	t.Parallel()
	path, out := record(t, attempt{target: probe.Target{Host: "127.0.0.1", Port: 1}, config: `{}`})
	contents(t, path, "behaviour: refuse")
	replay(t, path, out)
}

func TestReplayMatchesTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	certs, roots := server.TLS.Certificates, x509.NewCertPool()
	roots.AddCert(server.Certificate())
	server.Close()
	target := serve(t, func(c net.Conn) {
		secured := tls.Server(c, &tls.Config{Certificates: certs})
		buf := make([]byte, 100)
		n, _ := secured.Read(buf)
		fmt.Fprintf(secured, "inside: %s", buf[:n])
		secured.Close()
	})
	trusting := wasm.Config{Handshake: func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
		config.RootCAs = roots
		secured := tls.Client(conn, config)
		return secured, secured.HandshakeContext(ctx)
	}}
	path, out := record(t, attempt{cfg: trusting, target: target, config: `{"network":"tls","say":"hi"}`})
	if out.Output != "inside: hi" {
		t.Fatalf("got %+v", out)
	}
	contents(t, path, "dial: tls://127.0.0.1:", "{text: hi}", "{text: 'inside: hi'}", "names: [example.com")
	replay(t, path, out)
	path, out = record(t, attempt{target: target, config: `{"network":"tls"}`})
	if out.Result != probe.Failure {
		t.Fatalf("got %+v", out)
	}
	contents(t, path, "unknown authority")
	replay(t, path, out)
}

func TestReplayMatchesHTTP(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new?x=1", http.StatusFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "session=1")
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL, r.Header.Get("X-A"), body)
	}))
	defer server.Close()
	target := webTarget(t, server)
	ask := `{"do":"http","request":"{\"method\":\"POST\",\"url\":\"http:///a\",\"headers\":{\"X-A\":\"1\",\"Authorization\":\"basic x\"}}","body":"{\"b\":1}"}`
	path, out := record(t, attempt{target: target, config: ask})
	if out.Output != `POST /a 1 {"b":1}` {
		t.Fatalf("got %+v", out)
	}
	contents(t, path, "url: /a\n", `X-A: "1"`, "json: {b: 1}", "Set-Cookie: hidden")
	if text, _ := os.ReadFile(path); strings.Contains(string(text), "net:") || strings.Count(string(text), "basic x") != 1 {
		t.Errorf("want one exchange without secrets, got:\n%s", text)
	}
	replay(t, path, out)
	path, out = record(t, attempt{target: target, config: `{"do":"http","request":"{\"url\":\"http:///old\",\"redirects\":2}"}`})
	if out.Output != "GET /new?x=1  " {
		t.Fatalf("got %+v", out)
	}
	replay(t, path, out)
	// The plugin writes HTTP to a connection of its own.
	path, out = record(t, attempt{target: target, config: `{"say":"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-A: 2\r\n\r\n"}`})
	contents(t, path, "- recv:\n            http:", `X-A: "2"`)
	replay(t, path, out)
	f := load(t, fmt.Sprintf("- name: x\n  replay: %s\n  request: {config: {say: \"GET /a HTTP/1.1\\r\\nX-A: 2\\r\\nHost: b\\r\\n\\r\\n\"}}\n", path))
	if r := run(t, f, plugintest.Config{CasesOnly: true}).Results[0]; !r.OK() {
		t.Errorf("%q\n%s", r.Failures, r.Diff)
	}
}

// nameserver starts a DNS server and returns its address. It answers the n-th question with the
// address 10.0.0.n, and a repeated question as before.
func nameserver(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1000)
		for numbers := make(map[string]byte); ; {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if err := m.Unpack(buf[:size]); err != nil {
				return
			}
			question := fmt.Sprint(m.ID, from)
			if numbers[question] == 0 {
				numbers[question] = byte(len(numbers) + 1)
			}
			n := numbers[question]
			m.Response, m.Additionals = true, nil
			head := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: uint32(n)}
			m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, n}}}}
			packed, err := m.Pack()
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(packed, from)
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return conn.LocalAddr().String()
}

func TestReplayMatchesDNS(t *testing.T) {
	t.Parallel()
	cfg := wasm.Config{DNSServers: []string{nameserver(t)}}
	path, out := record(t, attempt{cfg: cfg, config: `{"do":"dns","times":2,"request":"{\"name\":\"web.internal\"}"}`, grants: []string{"dns"}})
	if out.Result != probe.Success || !strings.Contains(out.Output, `"ttl":2,"data":"10.0.0.2"`) {
		t.Fatalf("got %+v", out)
	}
	contents(t, path, "name: web.internal", "{ttl: 1, data: 10.0.0.1}", "grants: [dns, target]")
	// The durations and the address of the server differ in each run, so only part is compared.
	f := load(t, fmt.Sprintf("- name: x\n  replay: %s\n  want: {result: success, message: '/(?s)10.0.0.1.*10.0.0.2/'}\n", path))
	if r := run(t, f, plugintest.Config{CasesOnly: true}).Results[0]; !r.OK() {
		t.Errorf("%q\n%s", r.Failures, r.Diff)
	}
	server := nameserver(t)
	host, port, _ := net.SplitHostPort(server)
	n, _ := strconv.Atoi(port)
	path, out = record(t, attempt{target: probe.Target{Host: host, Port: n}, config: `{"do":"dns","request":"{\"name\":\"web.internal\",\"server\":\"target\"}"}`, grants: []string{"dns"}})
	if out.Result != probe.Success {
		t.Fatalf("got %+v", out)
	}
	contents(t, path, "server: target")
	f = load(t, fmt.Sprintf("- name: x\n  replay: %s\n  want: {result: success, message: /10.0.0.1/}\n", path))
	if r := run(t, f, plugintest.Config{CasesOnly: true}).Results[0]; !r.OK() {
		t.Errorf("%q\n%s", r.Failures, r.Diff)
	}
}

func TestReplayMatchesEchoRequests(t *testing.T) {
	t.Parallel()
	n := 0
	cfg := wasm.Config{Echo: func(_ context.Context, r wasm.EchoRequest) (wasm.EchoReply, error) {
		if n++; n == 3 {
			return wasm.EchoReply{}, errors.New("10.0.0.1 says: network unreachable")
		}
		return wasm.EchoReply{Payload: r.Payload, HopLimit: 50 + n, RTT: time.Duration(n) * time.Millisecond}, nil
	}}
	path, out := record(t, attempt{cfg: cfg, target: probe.Target{Host: "10.0.0.7"}, config: `{"do":"echo","times":3}`})
	if out.Result != probe.Failure || !strings.Contains(out.Output, "hop limit 52, 2ms; ") {
		t.Fatalf("got %+v", out)
	}
	contents(t, path, "{hopLimit: 51, latency: 1ms}", "{hopLimit: 52, latency: 2ms}", "{error: '10.0.0.1 says: network unreachable'}")
	f := load(t, fmt.Sprintf("- name: x\n  replay: %s\n  want: {result: failure, message: '/hop limit 51, 1ms; .* hop limit 52, 2ms; .*network unreachable/'}\n", path))
	if r := run(t, f, plugintest.Config{CasesOnly: true}).Results[0]; !r.OK() {
		t.Errorf("%q\n%s", r.Failures, r.Diff)
	}
}

// TestReplayMatchesNamesAndTimeout replays resolved names, and a server that does not answer.
func TestReplayMatchesNamesAndTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	target := serve(t, func(c net.Conn) { <-release })
	defer close(release)
	path, out := record(t, attempt{target: probe.Target{Host: "localhost", Port: target.Port}, config: `{}`, timeout: 4 * time.Second})
	if out.Result != probe.Failure || out.Output != "timed out after 4s" {
		t.Fatalf("got %+v", out)
	}
	contents(t, path, "names:\n    localhost:", `{text: "hello\n"}`)
	replay(t, path, out)
	path, out = record(t, attempt{target: probe.Target{Host: "nosuch.invalid", Port: 1}, config: `{}`, cfg: wasm.Config{
		LookupIP: func(_ context.Context, host string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		},
	}})
	contents(t, path, "nosuch.invalid: []")
	replay(t, path, out)
}

func TestRecordOmitsBytesAboveLimit(t *testing.T) {
	t.Parallel()
	target := serve(t, func(c net.Conn) {
		buf := make([]byte, 100)
		_, _ = c.Read(buf)
		_, _ = c.Write(make([]byte, 100<<10))
	})
	path, _ := record(t, attempt{target: target, config: `{}`})
	contents(t, path, "# 36870 more bytes of this connection were left out\n")
	if info, err := os.Stat(path); err != nil || info.Size() > 300<<10 {
		t.Errorf("%v, %v", info, err)
	}
	rec := plugintest.NewRecorder()
	if err := rec.Write(path); err == nil {
		t.Error("Write returned no error for an empty recording")
	}
}

func TestLoadInvalidSessionFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct{ session, more, want string }{
		"missing file":       {"", "", "no such file"},
		"unknown field":      {"apiVersion: prober.dev/v1\nkind: PluginSession\nrequest: {}\nhost: {nte: []}\n", "", "session.yaml:4: host.nte: unknown field"},
		"wrong kind":         {"apiVersion: prober.dev/v1\nkind: PluginTest\nrequest: {}\nhost: {}\n", "", `session.yaml:2: kind: must be "PluginSession"`},
		"host beside replay": {"apiVersion: prober.dev/v1\nkind: PluginSession\nrequest: {}\nhost: {}\nwant: {result: success}\n", ", host: {}", "the host of a replay is that of the session"},
		"missing want":       {"apiVersion: prober.dev/v1\nkind: PluginSession\nrequest: {}\nhost: {}\n", "", "cases[0].want: the field is required"},
		"missing result":     {"apiVersion: prober.dev/v1\nkind: PluginSession\nrequest: {}\nhost: {}\n", ", want: {message: x}", "cases[0].want.result: the field is required"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", ""), "session.yaml")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.session != "" {
				if err := os.WriteFile(path, []byte(c.session), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			file := filepath.Join(filepath.Dir(path), "a_test.yaml")
			text := "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./x.wasm\ncases:\n- {name: a, replay: session.yaml" + c.more + "}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := plugintest.Load(file); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
