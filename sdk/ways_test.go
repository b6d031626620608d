//go:build !wasip1

package sdk_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	cryptotls "crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
	"github.com/daeace23/prober/sdk/testdata/ways"
)

var (
	everything = built("everything")
	minimal    = built("minimal")
)

// built returns a function that builds a guest of testdata once. It also opens the source files, so that go
// test does not use a cached result after they have changed.
func built(name string) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		for _, pattern := range []string{"testdata/*/*.go", "*.go", "sdkhttp/*.go", "../internal/abi/*.go"} {
			files, err := filepath.Glob(pattern)
			if err != nil {
				return nil, err
			}
			for _, file := range files {
				if _, err := os.ReadFile(file); err != nil {
					return nil, err
				}
			}
		}
		dir, err := os.MkdirTemp("", "prober-sdk-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		out := filepath.Join(dir, name+".wasm")
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-o", out, "./testdata/"+name)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, text)
		}
		return os.ReadFile(out)
	})
}

func buildGuest(t *testing.T, built func() ([]byte, error)) []byte {
	t.Helper()
	module, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// imports returns the prober modules that a guest imports from.
func imports(t *testing.T, module []byte) []string {
	t.Helper()
	var names []string
	for _, name := range []string{"prober_v1_dns", "prober_v1_http", "prober_v1_icmp", "prober_v1_kv", "prober_v1_net"} {
		// In the import section, the length of a name precedes it.
		if strings.Contains(string(module), string(rune(len(name)))+name) {
			names = append(names, name)
		}
	}
	return names
}

// handlersOf returns the plugin as a native program and as a guest.
func handlersOf(t *testing.T, module []byte) map[string]probe.Preparer {
	t.Helper()
	return map[string]probe.Preparer{
		"native": sdk.Native(sdk.Func(ways.Probe)), "guest": load(t, module, plugin.Reset), "pooled": load(t, module, plugin.Pooled),
	}
}

func load(t *testing.T, module []byte, isolation plugin.Isolation) probe.Preparer {
	t.Helper()
	cache := filepath.Join(t.TempDir(), "cache")
	if base, err := os.UserCacheDir(); err == nil {
		cache = filepath.Join(base, "prober-test", "wasm")
	}
	host, err := wasm.New(wasm.Config{CacheDir: cache, Interpreter: interpreter, Echo: replies, Credentials: credentials})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	m := plugin.Minimal("everything")
	m.Isolation, m.Stateful = isolation, isolation == plugin.Pooled
	m.Requests = []plugin.Request{
		{Capability: "net", Allow: []string{"target"}}, {Capability: "http", Allow: []string{"target", "http://127.0.0.1:*"}},
		{Capability: "dns"}, {Capability: "kv"}, {Capability: "icmp"}, {Capability: "files"},
	}
	grants, err := plugin.ParseGrants([]string{"dns", "kv", "http://127.0.0.1:*", "file:///nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	guest, err := host.Load(t.Context(), plugin.Found{Module: module, Manifest: m, Grants: grants})
	if err != nil {
		t.Fatal(err)
	}
	return guest
}

// credentials returns the credentials called "own".
func credentials(_, name string) (*cryptotls.Config, error) {
	if name != "own" {
		return nil, fs.ErrPermission
	}
	return own.Clone(), nil
}

// replies is a network in which every host except one replies to echo requests.
func replies(_ context.Context, r wasm.EchoRequest) (wasm.EchoReply, error) {
	if r.Addr.String() == "10.0.0.98" {
		return wasm.EchoReply{}, errors.New("10.0.0.1 says: host unreachable")
	}
	return wasm.EchoReply{Local: netip.MustParseAddr("10.0.0.1"), Payload: r.Payload, HopLimit: r.HopLimit, RTT: 2 * time.Millisecond}, nil
}

// nativeReplies is the same network for a native program.
func nativeReplies(ctx context.Context, q sdk.EchoRequest) (sdk.EchoReply, error) {
	addr, err := netip.ParseAddr(q.Host)
	if err != nil {
		return sdk.EchoReply{}, err
	}
	reply, err := replies(ctx, wasm.EchoRequest{Addr: addr, Payload: cmp.Or(q.Payload, 56), HopLimit: q.HopLimit})
	return sdk.EchoReply{Local: reply.Local.String(), Remote: q.Host, Payload: reply.Payload, HopLimit: reply.HopLimit, RTT: reply.RTT}, err
}

// own are the credentials "own": the certificate of the server of [web], as the client's.
var own cryptotls.Config

// proxy starts a proxy that accepts CONNECT requests with the header X-Team.
func proxy(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Header.Get("X-Team") != "shop" {
			http.Error(w, "no tunnel", http.StatusForbidden)
			return
		}
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		var copying sync.WaitGroup
		copying.Go(func() { _, _ = io.Copy(to, from); to.Close() })
		_, _ = io.Copy(from, to)
		from.Close()
		copying.Wait()
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// web starts a server whose response repeats the request.
func web(t *testing.T) (plain, secure probe.Target, ca string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Add("X-Answer", "a")
		w.Header().Add("X-Answer", "b")
		fmt.Fprintf(w, "%s %s by %s: %s", r.Method, r.URL, r.Header.Get("X-Probe"), body)
	})
	mux.HandleFunc("/cookies", func(w http.ResponseWriter, _ *http.Request) {
		for _, cookie := range []string{"sid=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "theme=dark"} {
			w.Header().Add("Set-Cookie", cookie)
		}
		w.Header().Set("X-One", "1, 2")
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		_, _ = zip.Write(bytes.Repeat([]byte("long "), 100))
		_ = zip.Close()
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/who", func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "from %s with %d certificates", host, len(r.TLS.PeerCertificates))
	})
	mux.Handle("/moved", http.RedirectHandler("/there", http.StatusSeeOther))
	s, tls := httptest.NewServer(mux), httptest.NewUnstartedServer(mux)
	tls.Config.ErrorLog, tls.EnableHTTP2 = log.New(io.Discard, "", 0), true
	tls.TLS = &cryptotls.Config{ClientAuth: cryptotls.RequestClientCert}
	tls.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(tls.Close)
	own.Certificates = tls.TLS.Certificates
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw})
	return targetOf(s.Listener.Addr()), targetOf(tls.Listener.Addr()), string(cert)
}

func targetOf(addr net.Addr) probe.Target {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return probe.Target{Host: a.IP.String(), Port: a.Port}
	case *net.UDPAddr:
		return probe.Target{Host: a.IP.String(), Port: a.Port}
	}
	return probe.Target{}
}

// echoServer starts a server that echoes bytes, and closes a connection after ".".
func echoServer(t *testing.T) probe.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				buf := make([]byte, 8)
				for {
					n, err := conn.Read(buf)
					if err != nil || string(buf[:n]) == "." {
						return
					}
					if _, err := conn.Write(buf[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return targetOf(l.Addr())
}

func attempt(t *testing.T, h probe.Handler, target probe.Target) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	got, err := h.Probe(sdk.WithHost(ctx, sdk.Host{Echo: nativeReplies, Credentials: map[string]*cryptotls.Config{"own": &own}}), probe.Request{
		Target: target, Spec: probe.Spec{Timeout: 3 * time.Minute}, Container: &probe.Container{Name: "web"},
	})
	if err != nil {
		return "error: " + string(probe.ReasonOf(err))
	}
	return got.Result.String() + ": " + got.Output
}

// TestGuestAndNativeAgree makes the same attempts in a guest and in a native program.
func TestGuestAndNativeAgree(t *testing.T) {
	plain, secure, ca := web(t)
	through := proxy(t)
	names, echo, lonely := dnsServer(t), echoServer(t), probe.Target{Host: "10.0.0.7"}
	quote := func(text string) string {
		doc, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(doc)
	}
	cases := []struct {
		name   string
		config string
		target probe.Target
		want   []string // of consecutive attempts
	}{
		{"dial", `{"do":"dial"}`, plain, []string{"success: tcp to " + fmt.Sprintf("%s:%d", plain.Host, plain.Port)}},
		{"HTTP to the target", `{"do":"http","url":"http:///a?b=c"}`, plain, []string{"success: 200 HTTP/1.1 a, b after 0: GET /a?b=c by web: "}},
		{"HTTP with a body", `{"do":"http","method":"PUT","url":"http:///","body":"all of it"}`, plain, []string{"success: 200 HTTP/1.1 a, b after 0: PUT / by web: all of it"}},
		{"a redirect is an answer", `{"do":"http","url":"http:///moved"}`, plain, []string{"success: 303 HTTP/1.1  after 0: <a href=\"/there\">See Other</a>.\n\n"}},
		{"redirects that are followed", `{"do":"http","url":"http:///moved","redirects":1}`, plain, []string{"success: 200 HTTP/1.1 a, b after 1: GET /there by web: "}},
		{"HTTPS", `{"do":"http","url":"https:///x","ca":` + quote(ca) + `}`, secure, []string{"success: 200 HTTP/1.1 a, b after 0: GET /x by web:  over TLS 1.3 of example.com"}},
		{"HTTPS by another name", `{"do":"http","url":"https:///x","serverName":"www.example.com","ca":` + quote(ca) + `}`, secure, []string{"success: 200 HTTP/1.1 a, b after 0: GET /x by web:  over TLS 1.3 of example.com"}},
		{"repeated headers", `{"do":"cookies"}`, plain, []string{
			`success: ["sid=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT" "theme=dark"] ["1, 2"] [] sid theme`,
		}},
		{"gzip", `{"do":"options","url":"http:///gzip","decompress":"gzip"}`, plain, []string{"success: 200 HTTP/1.1, 33 bytes: " + strings.Repeat("long ", 100)}},
		{"malformed gzip", `{"do":"options","url":"http:///a","decompress":"gzip"}`, plain, []string{"failure: decompress: gzip: invalid header"}},
		{"an unknown encoding", `{"do":"options","url":"http:///a","decompress":"br"}`, plain, []string{`failure: http: decompress "br": must be gzip or deflate`}},
		{"an unknown IP family", `{"do":"options","url":"http:///a","ipFamily":"5"}`, plain, []string{`failure: http: ipFamily "5": must be "4", "6", "4,6" or "6,4"`}},
		{"a source address", `{"do":"options","url":"https:///who","sourceAddress":"127.0.0.9","ipFamily":"6,4","insecure":true}`, secure, []string{"success: 200 HTTP/1.1, 34 bytes: from 127.0.0.9 with 0 certificates"}},
		{"a malformed source address", `{"do":"options","url":"http:///a","sourceAddress":"here"}`, plain, []string{`failure: http: sourceAddress "here": must be an IP address`}},
		{"HTTP/2", `{"do":"options","url":"https:///a","http2":true,"ca":` + quote(ca) + `}`, secure, []string{"success: 200 HTTP/2.0, 12 bytes: GET /a by : "}},
		{"a client certificate", `{"do":"options","url":"https:///who","credentials":"own","ca":` + quote(ca) + `}`, secure, []string{"success: 200 HTTP/1.1, 34 bytes: from 127.0.0.1 with 1 certificates"}},
		{"a TLS version that is unknown", `{"do":"options","url":"https:///who","minVersion":"SSL3"}`, secure, []string{`failure: http: tls: versions "SSL3" to "": must be TLS10, TLS11, TLS12 or TLS13`}},
		{"a proxy", `{"do":"options","url":"https:///who","insecure":true,"proxy":"` + through + `"}`, secure, []string{"success: 200 HTTP/1.1, 34 bytes: from 127.0.0.1 with 0 certificates"}},
		{"a malformed proxy", `{"do":"options","url":"http:///","proxy":"socks://x"}`, plain, []string{"failure: http: proxy: must be http://HOST:PORT"}},
		{"dialer for IPv4", `{"do":"dialer","ipFamily":"4"}`, plain, []string{"success: tcp from 127.0.0.1"}},
		{"dialer with a source address", `{"do":"dialer","ipFamily":"6,4","sourceAddress":"127.0.0.9"}`, plain, []string{"success: tcp from 127.0.0.9"}},
		{"dialer of tcp4", `{"do":"dialer","network":"tcp4"}`, plain, []string{"success: tcp from 127.0.0.1"}},
		{"dialer of TLS", `{"do":"dialer","network":"tls","insecure":true,"alpn":["h2"],"maxVersion":"TLS12","credentials":"own"}`, secure, []string{`success: tls, TLS 1.2, "h2"`}},
		{"dialer of TLS with authorities", `{"do":"dialer","network":"tls","ca":` + quote(ca) + `}`, secure, []string{`success: tls, TLS 1.3, ""`}},
		{"the features", `{"do":"features"}`, plain, []string{"success: [net http dns kv icmp files]"}},
		{"http.Client", `{"do":"client"}`, plain, []string{"success: 200 OK GET /there by :  16 from HTTP/1.1"}},
		{"A", `{"do":"dns","name":"db.test","server":"target"}`, names, []string{"success: NOERROR db.test CNAME 60 deep.db.test deep.db.test A 30 10.0.0.7"}},
		{"AAAA", `{"do":"dns","name":"db.test.","type":"aaaa","server":"target"}`, names, []string{"success: NOERROR db.test AAAA 5 2001:db8::7"}},
		{"MX", `{"do":"dns","name":"db.test","type":"MX","server":"target"}`, names, []string{"success: NOERROR db.test MX 5 10 mx.db.test"}},
		{"SRV", `{"do":"dns","name":"db.test","type":"SRV","server":"target"}`, names, []string{"success: NOERROR db.test SRV 5 1 2 5432 deep.db.test"}},
		{"SOA", `{"do":"dns","name":"db.test","type":"SOA","server":"target"}`, names, []string{"success: NOERROR db.test SOA 5 ns.db.test admin.db.test 1 2 3 4 5"}},
		{"TXT, which is too long for udp", `{"do":"dns","name":"db.test","type":"TXT","server":"target"}`, names, []string{"success: NOERROR db.test TXT 5 " + strings.Repeat("long ", 500)}},
		{"a name that does not exist", `{"do":"dns","name":"no.test","server":"target"}`, names, []string{"success: NXDOMAIN"}},
		{"kept from attempt to attempt", `{"do":"kv","until":2}`, plain, []string{
			`success: 0 was kept as ""`, `success: 1 was kept as "1"`, "success: forgotten", `success: 0 was kept as ""`,
		}},
		{"an error keeps nothing", `{"do":"kv","error":true}`, plain, []string{"error: guest", "error: guest"}},
		{"more than there is room for", `{"do":"kv","size":65536}`, plain, []string{"failure: kv: more than 65536 bytes"}},
		{"a type that nobody knows", `{"do":"dns","name":"db.test","type":"ANY","server":"target"}`, names, []string{
			`failure: dns: unknown type "ANY"; known: A, AAAA, CNAME, MX, NS, PTR, SOA, SRV, TXT`,
		}},
		{"echo", `{"do":"echo"}`, lonely, []string{"success: 56 bytes from 10.0.0.7 to 10.0.0.1, hop limit 7, after 2ms"}},
		{"echo with a payload", `{"do":"echo","payload":9,"host":"10.0.0.7"}`, lonely, []string{"success: 9 bytes from 10.0.0.7 to 10.0.0.1, hop limit 7, after 2ms"}},
		{"echo to a host without a route", `{"do":"echo"}`, probe.Target{Host: "10.0.0.98"}, []string{"failure: icmp 10.0.0.98: 10.0.0.1 says: host unreachable"}},
		{"the context", `{"do":"context"}`, plain, []string{"success: true true true true <nil> <nil> <nil>"}},
		{"reads", `{"do":"reads"}`, echo, []string{"success: [true false a b c false true false true]", "success: [true false a b c false true false true]"}},
		{"no URL", `{"do":"http","url":"ftp:///"}`, plain, []string{`failure: http: "ftp:///": want http:// or https://HOST/path`}},
	}
	for as, h := range handlersOf(t, buildGuest(t, everything)) {
		for _, c := range cases {
			t.Run(as+"/"+c.name, func(t *testing.T) {
				prepared, err := h.Prepare([]byte(c.config), c.target)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for range c.want {
					got = append(got, attempt(t, prepared, c.target))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got  %q\nwant %q", got, c.want)
				}
			})
		}
	}
}

// TestGuestAndNativeEndAlike makes attempts that reach a timeout or a deadline.
func TestGuestAndNativeEndAlike(t *testing.T) {
	plain, _, _ := web(t)
	for as, h := range handlersOf(t, buildGuest(t, everything)) {
		for name, c := range map[string]struct{ config, want string }{
			"progress at the deadline": {`{"do":"wait"}`, "failure: 1 of 3 replicas; the deadline of 2s has passed"},
			"timeout of a request":     {`{"do":"options","url":"http:///slow","timeout":"50ms"}`, "failure: "},
			"IPv6 only":                {`{"do":"options","url":"http:///","ipFamily":"6"}`, "failure: http: "},
		} {
			t.Run(as+"/"+name, func(t *testing.T) {
				prepared, err := h.Prepare([]byte(c.config), plain)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				start := time.Now()
				out, err := prepared.Probe(ctx, probe.Request{Target: plain, Spec: probe.Spec{Timeout: 2 * time.Second}})
				if got := out.Result.String() + ": " + out.Output; err != nil || !strings.HasPrefix(got, c.want) {
					t.Errorf("got %q, %v, want %q", got, err, c.want)
				}
				if early := time.Since(start) < 2*time.Second; early == strings.HasPrefix(name, "progress") {
					t.Errorf("ended after %v: %s", time.Since(start), out.Output)
				}
			})
		}
	}
}

// TestPooledGuestCannotUseEarlierAttempt keeps a handle of the first attempt in a guest that is not reset.
// In the second attempt, the same handle belongs to something else.
func TestPooledGuestCannotUseEarlierAttempt(t *testing.T) {
	plain, _, _ := web(t)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	for _, c := range []struct {
		name, config string
		target       probe.Target
		want         string
	}{
		{"connection", `{"do":"keep"}`, plain, "true true true <nil>"},
		{"lookup", `{"do":"keepLookup","name":"db.test","server":"target"}`, targetOf(udp.LocalAddr()), "true"},
		{"goroutine that reads", `{"do":"keepReader"}`, targetOf(tcp.Addr()), "true true"},
		{"context", `{"do":"keepContext"}`, plain, "context canceled context canceled true true true"},
		{"context after Done", `{"do":"keepContext","ask":true}`, plain, "context canceled context canceled true true true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := load(t, buildGuest(t, everything), plugin.Pooled).Prepare([]byte(c.config), c.target)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{attempt(t, h, c.target), attempt(t, h, c.target)}
			if want := []string{"success: the first", "success: " + c.want}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestPooledGuestReadsEachRequest makes attempts of several probes in one instance. The guest modifies each
// request, and only decodes requests that differ from the previous one.
func TestPooledGuestReadsEachRequest(t *testing.T) {
	guest := load(t, buildGuest(t, everything), plugin.Pooled)
	target := func(port int) probe.Target { return probe.Target{Host: "10.0.0.7", Port: port} }
	long := strings.Repeat("long ", 1000) // larger than the buffer of the SDK
	for i, c := range []struct {
		config string
		port   int
		want   string
	}{
		{`{"do":"change","name":"a"}`, 80, `success: 10.0.0.7:80 attempt 0, a, "web"`},
		{`{"do":"change","name":"a"}`, 80, `success: 10.0.0.7:80 attempt 0, a, "web"`},
		{`{"do":"change","name":"b"}`, 80, `success: 10.0.0.7:80 attempt 0, b, "web"`},
		{`{"do":"change","name":"b"}`, 81, `success: 10.0.0.7:81 attempt 0, b, "web"`},
		{`{"do":"change","name":1,"error":"x"}`, 81, `error: guest`}, // "error" is not a bool
		{`{"do":"change","name":1,"error":"x"}`, 81, `error: guest`},
		{`{"do":"change","name":1}`, 81, `success: 10.0.0.7:81 attempt 0, 1, "web"`},
		{`{"do":"change","name":"` + long + `"}`, 8, `success: 10.0.0.7:8 attempt 0, ` + long + `, "web"`},
		{`{"do":"change","name":"` + long + `"}`, 8, `success: 10.0.0.7:8 attempt 0, ` + long + `, "web"`},
		{`{"do":"change","name":"` + long + `"}`, 9, `success: 10.0.0.7:9 attempt 0, ` + long + `, "web"`},
		{`{"do":"change"}`, 8, `success: 10.0.0.7:8 attempt 0, nobody, "web"`},
		{`{"do":"change"}`, 8, `success: 10.0.0.7:8 attempt 0, nobody, "web"`},
	} {
		h, err := guest.Prepare([]byte(c.config), target(c.port))
		if err != nil {
			t.Fatal(err)
		}
		if got := attempt(t, h, target(c.port)); got != c.want {
			t.Errorf("%d: got %q, want %q", i, got, c.want)
		}
	}
}

// An operator only needs to grant the modules that a guest imports.
func TestGuestImportsOnlyWhatItCalls(t *testing.T) {
	for _, c := range []struct {
		module []byte
		want   []string
	}{
		{buildGuest(t, minimal), []string{"prober_v1_net"}},
		{buildGuest(t, everything), []string{"prober_v1_dns", "prober_v1_http", "prober_v1_icmp", "prober_v1_kv", "prober_v1_net"}},
	} {
		if got := imports(t, c.module); !slices.Equal(got, c.want) {
			t.Errorf("imports from %v, want %v", got, c.want)
		}
	}
}

func TestWithHostReplacesNetwork(t *testing.T) {
	kept := map[string][]byte{"n": []byte("7")}
	var asked []string
	var mu sync.Mutex
	host := sdk.Host{
		Dial: func(_ context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, network+" "+addr)
			ours, theirs := net.Pipe()
			return ours, theirs.Close()
		},
		RoundTrip: func(req *http.Request) (*http.Response, error) {
			asked = append(asked, req.Method+" "+req.URL.String())
			return &http.Response{StatusCode: 418, Body: io.NopCloser(strings.NewReader("short and stout")), Request: req}, nil
		},
		DNSServers: []string{"10.0.0.2:53"},
		KV:         kept,
	}
	target := probe.Target{Host: "db.internal", Port: 80}
	for config, want := range map[string]string{
		`{"do":"dial"}`:                   "success: pipe to pipe",
		`{"do":"http","url":"http:///a"}`: `success: 418   after 0: short and stout`,
		`{"do":"dns","name":"db.test"}`:   "failure: dns: A db.test: io: read/write on closed pipe",
		`{"do":"kv"}`:                     `success: 7 was kept as "7"`,
	} {
		h, err := sdk.Native(sdk.Func(ways.Probe)).Prepare([]byte(config), target)
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.Probe(sdk.WithHost(t.Context(), host), probe.Request{Target: target})
		if text := got.Result.String() + ": " + got.Output; err != nil || !strings.HasPrefix(text, want) {
			t.Errorf("%s: got %q, %v, want %q", config, text, err, want)
		}
	}
	if string(kept["n"]) != "8" {
		t.Errorf("kept %q", kept)
	}
	slices.Sort(asked)
	if want := []string{"GET http://db.internal:80/a", "tcp db.internal:80", "udp 10.0.0.2:53", "udp 10.0.0.2:53"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// TestGuestIsSmall checks that the SDK does not import packages that make a guest large.
func TestGuestIsSmall(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", ".")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, name := range []string{"crypto/tls", "crypto/x509", "net/http", "encoding/json", "regexp"} {
		if slices.Contains(deps, name) {
			t.Errorf("every Go guest imports %s", name)
		}
	}
	if module := buildGuest(t, minimal); len(module) > 4<<20 {
		t.Errorf("the minimal guest has %d bytes", len(module))
	}
}
