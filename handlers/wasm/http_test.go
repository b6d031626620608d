package wasm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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

// web starts a server that answers with the request as text, or redirects.
func web(t testing.TB, start func(*httptest.Server), elsewhere string) (*httptest.Server, probe.Target) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Add("X-Many", "a")
		w.Header().Add("X-Many", "b")
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL, r.Header.Get("X-Asked"), body)
	})
	mux.HandleFunc("/again/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		if n == 0 {
			http.Redirect(w, r, "/end", http.StatusFound)
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/again/%d", n-1), http.StatusFound)
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to")+elsewhere, http.StatusFound)
	})
	mux.HandleFunc("/hang", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice the end of the connection
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewUnstartedServer(mux)
	start(s)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return s, probe.Target{Host: u.Hostname(), Port: port}
}

func request(t testing.TB, req map[string]any, body bool) string {
	t.Helper()
	config := map[string]any{"req": req}
	if body {
		config["body"] = true
	}
	doc, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

func TestGuestSendsHTTP(t *testing.T) {
	s, target := web(t, (*httptest.Server).Start, "")
	p := load(t, host, "http", plugin.Reset)
	got, err := attempt(t, bind(t, p, request(t, map[string]any{
		"method": "POST", "url": s.URL + "/a?b=c", "headers": map[string]string{"X-Asked": "yes"},
	}, true), target), probe.Request{Target: target}, 5*time.Second)
	if want := "POST /a?b=c yes posted"; err != nil || got.Result != probe.Success || got.Output != want {
		t.Errorf("got %+v, %v, want %q", got, err, want)
	}
	var head struct {
		Status, Redirects  int
		Proto, URL, Remote string
		Headers            map[string]string
		Timings            map[string]float64
	}
	got, err = attempt(t, bind(t, p, request(t, map[string]any{"url": "http:///again/1", "redirects": 3}, false), target), probe.Request{Target: target}, 5*time.Second)
	if err != nil || json.Unmarshal([]byte(got.Output), &head) != nil {
		t.Fatal(got, err)
	}
	if head.Status != 200 || head.Redirects != 2 || head.URL != s.URL+"/end" || head.Headers["x-many"] != "a, b" || head.Remote != s.Listener.Addr().String() || head.Timings["firstByte"] <= 0 {
		t.Errorf("got %+v", head)
	}
	for redirects, want := range map[int]string{0: `{"status":302`, 1: `{"status":302`, 9: `{"status":302`} {
		got, err := attempt(t, bind(t, p, request(t, map[string]any{"url": "http:///again/5", "redirects": redirects}, false), target), probe.Request{Target: target}, 5*time.Second)
		if err != nil || !strings.HasPrefix(got.Output, want) || !strings.Contains(got.Output, fmt.Sprintf("/again/%d", 5-min(redirects, 3))) {
			t.Errorf("%d redirects: got %+v, %v, want the answer after them", redirects, got, err)
		}
	}
}

func TestGuestSendsHTTPS(t *testing.T) {
	_, target := web(t, (*httptest.Server).StartTLS, "")
	p := load(t, host, "http", plugin.Reset)
	got, err := attempt(t, bind(t, p, request(t, map[string]any{"url": "https:///a", "tls": map[string]any{"verify": "none", "serverName": "example.com"}}, false), target),
		probe.Request{Target: target}, 5*time.Second)
	if err != nil || !strings.Contains(got.Output, `"tls":{"version":"TLS 1.3"`) || !strings.Contains(got.Output, `"sans":["example.com"`) {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = attempt(t, bind(t, p, request(t, map[string]any{"url": "https:///a"}, false), target), probe.Request{Target: target}, 5*time.Second)
	if err != nil || got.Reason != probe.ReasonTLS || !strings.HasPrefix(got.Output, "http: tls: failed to verify certificate") {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestHTTPEndsAtDeadline(t *testing.T) {
	_, target := web(t, (*httptest.Server).Start, "")
	p := load(t, host, "http", plugin.Reset)
	b := bind(t, p, request(t, map[string]any{"url": "http:///hang"}, true), target)
	if got, err := overrun(t, b, probe.Request{Target: target}, 100*time.Millisecond); err != nil || got.Reason != probe.ReasonDeadline {
		t.Errorf("got %+v, %v, want a time-out", got, err)
	}
	b = bind(t, p, request(t, map[string]any{"url": "http:///hang", "timeoutMs": 50}, true), target)
	if got, err := attempt(t, b, probe.Request{Target: target}, 10*time.Second); err != nil || got.Result != probe.Failure || got.Reason == probe.ReasonDeadline {
		t.Errorf("got %+v, %v, want the guest to see its own time-out", got, err)
	}
}

func TestHangingHTTPBodyEndsAtDeadline(t *testing.T) {
	_, target := web(t, (*httptest.Server).Start, "")
	p := load(t, host, "httpleave", plugin.Reset)
	start := time.Now()
	got, err := attempt(t, bind(t, p, request(t, map[string]any{"url": "http:///hang"}, false), target), probe.Request{Target: target}, 20*time.Second)
	if took := time.Since(start); err != nil || got.Result != probe.Success || took > patience/2 {
		t.Errorf("got %+v, %v after %v", got, err, took)
	}
}

func TestRedirectsAreAuthorized(t *testing.T) {
	other, _ := web(t, (*httptest.Server).Start, "")
	reached := 0
	other.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })
	otherURL, err := url.Parse(other.URL)
	if err != nil {
		t.Fatal(err)
	}
	s, target := web(t, (*httptest.Server).Start, "")
	ask := plugin.Request{Capability: "http", Allow: []string{"http://*:*"}}
	for _, c := range []struct {
		to     string
		grants []string
		denied bool
	}{
		{other.URL, nil, true},
		{"http://localhost:" + otherURL.Port(), nil, true},
		{"http://[::ffff:127.0.0.1]:" + otherURL.Port(), nil, true},
		{"http://169.254.169.254/latest/meta-data", []string{"http://*:*"}, true},
		{"http://2130706433:" + otherURL.Port(), []string{"http://*:*"}, true},
		{"http://0177.0.0.1:" + otherURL.Port(), []string{"http://*:*"}, true},
		{"http://0x7f000001:" + otherURL.Port(), []string{"http://*:*"}, true},
		{"http://127.1:" + otherURL.Port(), []string{"http://*:*"}, true},
		{"http://127.0.0.1.:" + otherURL.Port(), []string{"http://*:*"}, true},
		{"http://[::ffff:7f00:1]:" + otherURL.Port(), []string{"http://*:*"}, true},
		{"http://[64:ff9b::7f00:1]:" + otherURL.Port(), []string{"http://*:*"}, true},
		{"http://0.0.0.0:" + otherURL.Port(), []string{"http://*:*"}, true},
		{"http://[::]:" + otherURL.Port(), []string{"http://*:*"}, true},
		{"//127.0.0.1:" + otherURL.Port(), []string{"http://*:*"}, true},
		{"http://user@127.0.0.1:" + otherURL.Port(), []string{"http://*:*"}, true},
		{"https://127.0.0.1:" + otherURL.Port(), []string{"http://127.0.0.1:" + otherURL.Port()}, true},
		{other.URL, []string{"http://127.0.0.1:1"}, true},
		{other.URL + "/secret", []string{"http://127.0.0.1:" + otherURL.Port() + "/open/*"}, true},
		{other.URL + "/open/../secret", []string{"http://127.0.0.1:" + otherURL.Port() + "/open/*"}, true},
		{other.URL + "/open/%2e%2e/secret", []string{"http://127.0.0.1:" + otherURL.Port() + "/open/*"}, true},
		{other.URL + "/open/..;/secret", []string{"http://127.0.0.1:" + otherURL.Port() + "/open/*"}, true},
		{other.URL + "/open/%252e%252e/secret", []string{"http://127.0.0.1:" + otherURL.Port() + "/open/*"}, true},
		{other.URL + "/open/%c0%ae%c0%ae/secret", []string{"http://127.0.0.1:" + otherURL.Port() + "/open/*"}, true},
		{other.URL + "/open/..%5csecret", []string{"http://127.0.0.1:" + otherURL.Port() + "/open/*"}, true},
		{other.URL + "/open//secret", []string{"http://127.0.0.1:" + otherURL.Port() + "/open/*"}, true},
		{other.URL + "/open/..;/secret", []string{"tcp://127.0.0.1:" + otherURL.Port()}, false},
		{other.URL + "/open/..;/secret", []string{"tcp://127.0.0.1:" + otherURL.Port(), "!http://127.0.0.1/secret"}, true},
		{other.URL + "/open/x", []string{"http://127.0.0.1:" + otherURL.Port() + "/open/*"}, false},
		{other.URL, []string{"tcp://127.0.0.1:" + otherURL.Port()}, false},
		{other.URL, []string{"tcp://127.0.0.1:" + otherURL.Port(), "!http://127.0.0.1"}, true},
	} {
		before := reached
		p := loadAs(t, host, "http", asking("http", ask, plugin.Request{Capability: "net"}), grants(t, c.grants...)...)
		b := bind(t, p, request(t, map[string]any{"url": s.URL + "/away?to=" + url.QueryEscape(c.to), "redirects": 3}, true), target)
		got, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if denied := got.Reason == probe.ReasonDenied && p.Stats().Denied == 1 && reached == before; denied != c.denied {
			t.Errorf("%s with %v: got %+v, reached %d, want denied: %v", c.to, c.grants, got, reached-before, c.denied)
		}
	}
}

func TestRedirectedBodyCounts(t *testing.T) {
	bodies := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			bodies++
		}
		http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	target := probe.Target{Host: u.Hostname(), Port: port}
	m := plugin.Minimal("http")
	m.Limits.NetWrite = 2*len("posted") + 1
	p := loadAs(t, host, "http", m)
	b := bind(t, p, request(t, map[string]any{"method": "POST", "url": s.URL, "redirects": 3}, true), target)
	got, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second)
	if err != nil || got.Result != probe.Failure || !strings.Contains(got.Output, "more than 13 bytes written") || bodies != 2 {
		t.Errorf("got %+v, %v after %d bodies, want the third to be too much", got, err, bodies)
	}
	wantHits(t, p, map[plugin.LimitName]uint64{"netWrite": 1})
}

func TestRedirectToOtherSchemeIsRefused(t *testing.T) {
	path := socketPath(t)
	serve(t, "unix", path)
	s, target := web(t, (*httptest.Server).Start, "")
	granted := []string{"unix://" + path, "tcp://127.0.0.1:*"}
	p := loadAs(t, host, "http", asking("http", plugin.Request{Capability: "http", Allow: granted}), grants(t, granted...)...)
	for _, to := range []string{"unix://" + path, "file:///etc/passwd", "tcp://127.0.0.1:1/", "tls://127.0.0.1:1/", "HTTP+unix://a/"} {
		b := bind(t, p, request(t, map[string]any{"url": s.URL + "/away?to=" + url.QueryEscape(to), "redirects": 3}, true), target)
		got, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second)
		if err != nil || got.Result != probe.Failure || !strings.Contains(got.Output, "want http:// or https://") {
			t.Errorf("%s: got %+v, %v", to, got, err)
		}
	}
}

// TestHTTPOverUnixSocket also checks that a redirect leads to the socket again, or must be granted.
func TestHTTPOverUnixSocket(t *testing.T) {
	other, _ := web(t, (*httptest.Server).Start, "")
	otherPort := other.URL[strings.LastIndexByte(other.URL, ':'):]
	for scheme, start := range map[string]func(*httptest.Server){"http": (*httptest.Server).Start, "https": (*httptest.Server).StartTLS} {
		path := socketPath(t)
		web(t, func(s *httptest.Server) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			s.Listener.Close()
			s.Listener = l
			start(s)
			s.URL = scheme + "://127.0.0.1:1" // a port, although the target is a socket
		}, "")
		target := probe.Target{Unix: path}
		insecure := map[string]any{"verify": "none"}
		for _, c := range []struct {
			url, want string
			reason    probe.Reason
		}{
			{scheme + ":///a?b=c", "GET /a?b=c  posted", ""},
			{scheme + ":///again/1", "GET /end  ", ""},
			{scheme + ":///away?to=" + scheme + "://localhost/b", "GET /b  ", ""},
			{scheme + ":///away?to=http://localhost" + otherPort, "", probe.ReasonDenied},
			{scheme + ":///away?to=http://127.0.0.1" + otherPort, "", probe.ReasonDenied},
			{scheme + "://localhost/a", "", probe.ReasonDenied},
		} {
			p := load(t, host, "http", plugin.Reset)
			got, err := attempt(t, bind(t, p, request(t, map[string]any{"url": c.url, "redirects": 3, "tls": insecure}, true), target), probe.Request{Target: target}, 5*time.Second)
			if err != nil || got.Reason != c.reason || c.reason == "" && got.Output != c.want {
				t.Errorf("%s: got %+v, %v, want %q", c.url, got, err, c.want)
			}
		}
		p := loadAs(t, host, "http", asking("http"), grants(t, "!unix://"+path)...)
		got, err := attempt(t, bind(t, p, request(t, map[string]any{"url": scheme + ":///a"}, true), target), probe.Request{Target: target}, 5*time.Second)
		if err != nil || got.Reason != probe.ReasonDenied {
			t.Errorf("got %+v, %v, want a denial", got, err)
		}
	}
}

func TestInvalidHTTPRequestsAreRefused(t *testing.T) {
	_, target := web(t, (*httptest.Server).Start, "")
	p := load(t, host, "http", plugin.Reset)
	var got []string
	for _, req := range []map[string]any{
		{"url": "ftp:///a"},
		{"url": "http://user:pass@127.0.0.1/"},
		{"url": "http:opaque"},
		{"url": "http:///", "method": "CONNECT"},
		{"url": "http:///", "method": "a b"},
		{"url": "http:///", "headers": map[string]string{"a": "b\r\nc: d"}},
		{"url": "http:///", "tls": map[string]any{"alpn": []string{"h2"}}},
		{"url": 1},
	} {
		out, err := attempt(t, bind(t, p, request(t, req, false), target), probe.Request{Target: target}, 5*time.Second)
		if err != nil || out.Result != probe.Failure {
			t.Errorf("%v: got %+v, %v", req, out, err)
		}
		got = append(got, out.Output)
	}
	want := []string{
		`http: "ftp:///a": want http:// or https://HOST/path`,
		`http: "http://user:pass@127.0.0.1/": want http:// or https://HOST/path`,
		`http: "http:opaque": want http:// or https://HOST/path`,
		`http: the method CONNECT is not allowed`,
		`http: net/http: invalid method "a b"`,
		`http: net/http: invalid header field value for "A"`,
		`http: tls: alpn: the host chooses it`,
		`http: request: url: byte 7 of JSON: expected a string, got '1'`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestHTTPTriesEveryAddress checks that an unresponsive address leaves time for the others.
func TestHTTPTriesEveryAddress(t *testing.T) {
	t.Parallel()
	_, target := web(t, (*httptest.Server).Start, "")
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true,
		LookupIP: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.1")}, nil
		},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasPrefix(addr, "127.0.0.9:") {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	target.Host = "localhost"
	b := bind(t, load(t, h, "http", plugin.Reset), request(t, map[string]any{"url": "http:///a"}, true), target)
	got, err := attempt(t, b, probe.Request{Target: target}, 4*time.Second)
	if got.Reason == probe.ReasonDeadline { // the machine may have been stopped during the turn of the other address
		got, err = attempt(t, b, probe.Request{Target: target}, patience)
	}
	if err != nil || got.Output != "GET /a  posted" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A redirect to another port gets no credentials; one to the same origin does.
func TestRedirectsKeepCredentials(t *testing.T) {
	var got http.Header
	other, _ := web(t, (*httptest.Server).Start, "")
	own, target := web(t, (*httptest.Server).Start, "")
	keep := func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Clone()
			inner.ServeHTTP(w, r)
		})
	}
	other.Config.Handler, own.Config.Handler = keep(other.Config.Handler), keep(own.Config.Handler)
	for to, want := range map[string]string{own.URL + "/end": "Basic c2VjcmV0", other.URL + "/end": ""} {
		p := loadAs(t, host, "http", asking("http", plugin.Request{Capability: "http", Allow: []string{"http://*:*"}}, plugin.Request{Capability: "net"}),
			grants(t, "tcp://"+other.Listener.Addr().String())...)
		b := bind(t, p, request(t, map[string]any{
			"url": own.URL + "/away?to=" + url.QueryEscape(to), "redirects": 3,
			"headers": map[string]string{"Authorization": "Basic c2VjcmV0", "Cookie": "a=b", "X-Kept": "yes"},
		}, true), target)
		if out, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second); err != nil || out.Result != probe.Success {
			t.Fatalf("%s: %+v, %v", to, out, err)
		}
		if got.Get("Authorization") != want || (got.Get("Cookie") == "") != (want == "") || got.Get("X-Kept") != "yes" {
			t.Errorf("%s got %v", to, got)
		}
	}
}
