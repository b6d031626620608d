package wasm_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// ask makes one HTTP request with a plugin.
func ask(t *testing.T, p *wasm.Handler, target probe.Target, req map[string]any, body bool) probe.Outcome {
	t.Helper()
	got, err := attempt(t, bind(t, p, request(t, req, body), target), probe.Request{Target: target}, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestHTTP2IsOffered(t *testing.T) {
	_, target := web(t, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }, "")
	p := load(t, host, "http", plugin.Reset)
	for offered, want := range map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"} {
		got := ask(t, p, target, map[string]any{"url": "https:///a", "http2": offered, "tls": map[string]any{"verify": "none"}}, false)
		if !strings.Contains(got.Output, `"proto":"`+want+`"`) {
			t.Errorf("http2 %t: got %+v", offered, got)
		}
	}
}

func TestHTTPHeadDescribesTheExchange(t *testing.T) {
	_, target := web(t, (*httptest.Server).StartTLS, "")
	p := load(t, host, "http", plugin.Reset)
	got := ask(t, p, target, map[string]any{"url": "https:///again/1", "redirects": 3, "tls": map[string]any{"verify": "none", "maxVersion": "TLS12"}}, false)
	var head struct {
		Length   int
		Repeated []struct{ Name, Value string }
		Phases   struct{ Resolve, Connect, TLS, Processing float64 }
		Timings  struct{ Connect float64 }
		TLS      struct {
			Version       string
			ChainNotAfter int64
			Peer          []struct{ Serial string }
		}
	}
	if err := json.Unmarshal([]byte(got.Output), &head); err != nil {
		t.Fatal(err, got)
	}
	want := []struct{ Name, Value string }{{"x-many", "a"}, {"x-many", "b"}}
	if diff := cmp.Diff(want, head.Repeated); diff != "" || head.Length != len("GET /end  ") {
		t.Errorf("length %d, %s", head.Length, diff)
	}
	if ph := head.Phases; ph.Connect <= head.Timings.Connect || ph.TLS <= 0 || ph.Processing <= 0 {
		t.Errorf("phases %+v, of which the last connection took %v", ph, head.Timings.Connect)
	}
	if head.TLS.Version != "TLS 1.2" || head.TLS.ChainNotAfter != 0 || head.TLS.Peer[0].Serial == "" {
		t.Errorf("TLS %+v", head.TLS)
	}
}

func TestHTTPBodiesAreDecompressed(t *testing.T) {
	bodies := map[string]func() []byte{
		"/gzip":      func() []byte { return zipped([]byte("plain")) },
		"/deflate":   func() []byte { return deflated([]byte("plain")) },
		"/bomb":      func() []byte { return zipped(make([]byte, 64<<20)) },
		"/truncated": func() []byte { z := zipped([]byte("plain")); return z[:len(z)-6] },
		"/other":     func() []byte { return []byte("plain, and longer") },
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(bodies[r.URL.Path]()) }))
	t.Cleanup(s.Close)
	target := targetAt(t, s.URL)
	m := plugin.Minimal("http")
	m.Limits.HTTPBody = 1000
	p := loadAs(t, host, "http", m)
	for _, c := range []struct{ path, encoding, want string }{
		{"/gzip", "gzip", "plain"},
		{"/deflate", "deflate", "plain"},
		{"/other", "", "plain"},
		{"/truncated", "gzip", "decompress: unexpected EOF"},
		{"/other", "gzip", "decompress: gzip: invalid header"},
		{"/other", "br", `http: decompress "br": must be gzip or deflate`},
		{"/bomb", "gzip", "more than 1000 bytes read"},
	} {
		got := ask(t, p, target, map[string]any{"url": "http://" + c.path, "decompress": c.encoding}, true)
		if !strings.Contains(got.Output, c.want) {
			t.Errorf("%s of %s: got %.200q, want %q", c.encoding, c.path, got.Output, c.want)
		}
	}
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

func deflated(data []byte) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 1)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

func targetAt(t *testing.T, rawURL string) probe.Target {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return probe.Target{Host: u.Hostname(), Port: port}
}

// proxying starts a proxy that calls seen with each request.
func proxying(t testing.TB, seen func(*http.Request)) *httptest.Server {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen(r)
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		from, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if r.Method == http.MethodConnect {
			fmt.Fprint(from, "HTTP/1.1 200 OK\r\n\r\n")
		} else if err := r.Write(to); err != nil {
			t.Error(err)
		}
		go func() { _, _ = io.Copy(to, from); to.Close() }()
		_, _ = io.Copy(from, to)
		from.Close()
	}))
	t.Cleanup(proxy.Close)
	return proxy
}

// TestHTTPThroughProxy checks that a request through a proxy needs a grant for the proxy, in addition to
// the grants for the request itself.
func TestHTTPThroughProxy(t *testing.T) {
	plain, plainTarget := web(t, (*httptest.Server).Start, "")
	_, secureTarget := web(t, (*httptest.Server).StartTLS, "")
	var asked []string
	proxy := proxying(t, func(r *http.Request) { asked = append(asked, r.Method+" "+r.Host+" "+r.Header.Get("X-Way")) })
	proxyGrant := "http://" + strings.TrimPrefix(proxy.URL, "http://")
	want := plugin.Request{Capability: "http", Allow: []string{"http://*:*"}}
	for _, c := range []struct {
		name, url, want string
		target          probe.Target
		grants          []string
	}{
		{"plain", "http:///a", "GET /a  posted", plainTarget, []string{proxyGrant}},
		{"tunnel", "https:///a", "GET /a  posted", secureTarget, []string{proxyGrant}},
		{"no grant for the proxy", "http:///a", "denied", plainTarget, nil},
		{"no grant behind the proxy", plain.URL + "/a", "denied", secureTarget, []string{proxyGrant}},
		{"denied behind the proxy", "http:///a", "denied", plainTarget, []string{proxyGrant, "!" + strings.TrimPrefix(plain.URL, "http://")}},
		{"metadata behind the proxy", "http://169.254.169.254/", "denied", plainTarget, []string{proxyGrant, "http://*:*"}},
	} {
		asked = nil
		p := loadAs(t, host, "http", asking("http", want), grants(t, c.grants...)...)
		got := ask(t, p, c.target, map[string]any{
			"url": c.url, "proxy": proxy.URL, "proxyHeaders": map[string]string{"X-Way": "1"}, "tls": map[string]any{"verify": "none"},
		}, true)
		if !strings.Contains(got.Output, c.want) || (c.want == "denied") != (len(asked) == 0) {
			t.Errorf("%s: got %+v; the proxy was asked for %q", c.name, got, asked)
		}
		if c.name == "tunnel" && (len(asked) != 1 || asked[0] != fmt.Sprintf("CONNECT 127.0.0.1:%d 1", c.target.Port)) {
			t.Errorf("the proxy was asked for %q", asked)
		}
	}
}

func TestIPFamilyAndSourceAddress(t *testing.T) {
	var dialled []string
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true,
		LookupIP: func(_ context.Context, name string) ([]netip.Addr, error) {
			if name == "four.test" {
				return []netip.Addr{netip.MustParseAddr("10.0.0.4")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("10.0.0.4"), netip.MustParseAddr("fd00::6")}, nil
		},
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			dialled = append(dialled, strings.TrimPrefix(wasm.SourceAddress(ctx).String()+">", "invalid IP>")+addr)
			return nil, fmt.Errorf("no route")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p, d := load(t, h, "http", plugin.Reset), load(t, h, "dialurl", plugin.Reset)
	for _, c := range []struct{ host, family, source, want string }{
		{"both.test", "", "", "10.0.0.4:80 [fd00::6]:80"},
		{"both.test", "4", "", "10.0.0.4:80"},
		{"both.test", "6", "", "[fd00::6]:80"},
		{"both.test", "4,6", "", "10.0.0.4:80 [fd00::6]:80"},
		{"both.test", "6,4", "", "[fd00::6]:80 10.0.0.4:80"},
		{"four.test", "6,4", "", "10.0.0.4:80"},
		{"four.test", "6", "", ""},
		{"both.test", "", "fd00::1", "fd00::1>[fd00::6]:80"},
		{"both.test", "", "192.0.2.1", "192.0.2.1>10.0.0.4:80"},
		{"four.test", "", "fd00::1", ""},
		{"four.test", "5", "", ""},
		{"four.test", "", "eth0", ""},
	} {
		target := probe.Target{Host: c.host, Port: 80}
		dialled = nil
		ask(t, p, target, map[string]any{"url": "http:///", "ipFamily": c.family, "sourceAddress": c.source}, false)
		if got := strings.Join(dialled, " "); got != c.want {
			t.Errorf("http, %+v: dialled %q", c, got)
		}
		dialled = nil
		doc, err := json.Marshal(map[string]string{"url": "tcp://?" + url.Values{"ipFamily": {c.family}, "sourceAddress": {c.source}}.Encode()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := attempt(t, bind(t, d, string(doc), target), probe.Request{Target: target}, patience); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(dialled, " "); got != c.want {
			t.Errorf("dial, %+v: dialled %q", c, got)
		}
	}
}

func TestSourceAddressIsThatOfTheConnection(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) }))
	t.Cleanup(s.Close)
	p := load(t, host, "http", plugin.Reset)
	if got := ask(t, p, targetAt(t, s.URL), map[string]any{"url": "http:///", "sourceAddress": "127.0.0.1"}, true); !strings.HasPrefix(got.Output, "127.0.0.1:") {
		t.Errorf("got %+v", got)
	}
	if got := ask(t, p, targetAt(t, s.URL), map[string]any{"url": "http:///", "sourceAddress": "203.0.113.77"}, true); got.Result != probe.Failure || !strings.Contains(got.Output, "not an address of this host") {
		t.Errorf("got %+v from an address that is not the host's", got)
	}
}

func TestCredentialsAreGivenByName(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, len(r.TLS.PeerCertificates))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true,
		Credentials: func(plugin, name string) (*tls.Config, error) {
			switch {
			case plugin != "http" || name != "client" && name != "broken":
				return nil, fs.ErrPermission
			case name == "broken":
				return nil, fmt.Errorf("the key is not that of the certificate")
			}
			return &tls.Config{RootCAs: roots, Certificates: s.TLS.Certificates, ServerName: "example.com"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	target := targetAt(t, s.URL)
	p := load(t, h, "http", plugin.Reset)
	for _, c := range []struct {
		name, want string
		denied     uint64
	}{
		{"client", "1", 0},
		{"", `http: tls: failed to verify certificate: x509: certificate signed by unknown authority: self-signed certificate "O=Acme Co"`, 0},
		{"broken", `http: tls: credentials "broken": the key is not that of the certificate`, 0},
		{"another", `http: tls: credentials "another": the operator has not allowed this plugin to use them`, 1},
	} {
		got := ask(t, p, target, map[string]any{"url": "https:///", "tls": map[string]any{"credentials": c.name}}, true)
		if got.Output != c.want || p.Stats().Denied != c.denied {
			t.Errorf("%s: got %+v, %d denied", c.name, got, p.Stats().Denied)
		}
	}
	if got := ask(t, load(t, host, "http", plugin.Reset), target, map[string]any{"url": "https:///", "tls": map[string]any{"credentials": "client"}}, true); got.Reason != probe.ReasonDenied {
		t.Errorf("without any credentials: got %+v", got)
	}
	// docs/secure/secrets.md warns that a redirect to another host is offered the certificate too.
	away := httptest.NewServer(http.RedirectHandler(s.URL, http.StatusFound))
	t.Cleanup(away.Close)
	elsewhere := plugin.Request{Capability: plugin.CapabilityHTTP, Allow: []string{s.URL + "/*"}}
	granted := loadAs(t, h, "http", asking("http", elsewhere), grants(t, s.URL+"/*")...)
	got := ask(t, granted, targetAt(t, away.URL), map[string]any{"url": "http:///", "redirects": 1, "tls": map[string]any{"credentials": "client"}}, true)
	if got.Output != "1" {
		t.Errorf("after a redirect: got %+v", got)
	}
}
