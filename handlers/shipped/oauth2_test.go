package shipped_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// load loads a shipped plugin with grants.
func load(t *testing.T, name string, grants ...string) *wasm.Handler {
	t.Helper()
	host, err := wasm.New(wasm.Config{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	f := found(t, name)
	if f.Grants, err = plugin.ParseGrants(grants); err != nil {
		t.Fatal(err)
	}
	p, err := host.Load(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// bind returns the handler of a probe.
func bind(t *testing.T, p *wasm.Handler, config string, target probe.Target) probe.Handler {
	t.Helper()
	h, err := p.Prepare([]byte(config), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { probe.Release(h) })
	return h
}

// again makes one attempt of a handler.
func again(t *testing.T, h probe.Handler, target probe.Target, timeout time.Duration) (probe.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return h.Probe(ctx, probe.Request{Target: target, Spec: probe.Spec{Timeout: timeout}})
}

// issuer is a token endpoint, which counts the tokens that it has issued, and the target that accepts the last one.
type issuer struct {
	life    string // expires_in, as JSON
	issued  atomic.Int64
	revoked atomic.Int64 // the number of tokens that are not valid
}

func (s *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/token" {
		_, _ = fmt.Fprintf(w, `{"access_token":"token-number-%d","token_type":"Bearer","expires_in":%s}`, s.issued.Add(1), s.life)
		return
	}
	var n int64
	if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer token-number-%d", &n); err != nil || n <= s.revoked.Load() {
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func TestTokenIsKeptForItsLife(t *testing.T) {
	for name, c := range map[string]struct {
		life   string
		grants []string
		want   int64 // tokens after three attempts
	}{
		"kept":                      {"3600", []string{"kv"}, 1},
		"life is a string":          {`"3600"`, []string{"kv"}, 1},
		"no grant of kv":            {"3600", nil, 3},
		"life is 0":                 {"0", []string{"kv"}, 3},
		"life is negative":          {"-1e300", []string{"kv"}, 3},
		"life is not a number":      {`"soon"`, []string{"kv"}, 3},
		"life is beyond all bounds": {"1e308", []string{"kv"}, 1},
		"no life":                   {"null", []string{"kv"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := &issuer{life: c.life}
			target, _ := serveWeb(t, false, s.ServeHTTP)
			h := bind(t, load(t, "httpcheck", c.grants...), `{"oauth2":{"tokenUrl":"http:///token","clientId":"shop","clientSecret":"hunter22"}}`, target)
			for range 3 {
				if out, err := again(t, h, target, patience); err != nil || out.Result != probe.Success {
					t.Fatalf("got %s %q, %v", out.Result, out.Output, err)
				}
			}
			if got := s.issued.Load(); got != c.want {
				t.Errorf("%d tokens issued, want %d", got, c.want)
			}
		})
	}
}

// TestRevokedTokenIsReplaced has a target that refuses the token that the plugin kept.
func TestRevokedTokenIsReplaced(t *testing.T) {
	s := &issuer{life: "3600"}
	target, _ := serveWeb(t, false, s.ServeHTTP)
	h := bind(t, load(t, "httpcheck", "kv"), `{"oauth2":{"tokenUrl":"http:///token","clientId":"shop","clientSecret":"hunter22"}}`, target)
	for i, c := range []struct {
		revoked, issued int64
		want            string
	}{{0, 1, "HTTP status 200"}, {1, 2, "HTTP status 200"}, {100, 3, "HTTP status 401, want 2xx"}, {3, 4, "HTTP status 200"}} {
		s.revoked.Store(c.revoked)
		out, err := again(t, h, target, patience)
		if err != nil || !strings.HasPrefix(out.Output, c.want) || s.issued.Load() != c.issued {
			t.Errorf("attempt %d: got %s %q, %v after %d tokens; want %q after %d", i+1, out.Result, out.Output, err, s.issued.Load(), c.want, c.issued)
		}
	}
}

func TestOauth2ExcludesOtherAuthorization(t *testing.T) {
	p := load(t, "httpcheck")
	for _, other := range []string{`"bearerToken":"hunter22"`, `"basicAuth":{"username":"shop"}`, `"headers":{"authorization":"hunter22"}`} {
		_, err := p.Prepare([]byte(`{"oauth2":{"tokenUrl":"http:///token","clientId":"shop","clientSecret":"hunter22"},`+other+`}`), probe.Target{Host: "127.0.0.1", Port: 1})
		if err == nil || !strings.Contains(err.Error(), "are both set") {
			t.Errorf("%s: got %v", other, err)
		}
	}
}

// TestHostileTokenEndpoints has token endpoints that send garbage, floods or the secret. Each attempt must be a
// Failure that names the token endpoint, and shows no secret.
func TestHostileTokenEndpoints(t *testing.T) {
	const secret = "hunter22"
	p := load(t, "httpcheck", "kv", "http://127.0.0.1:*")
	body := func(status, text string) func(net.Conn) {
		return after(func(c net.Conn) {
			_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(text), text)
		})
	}
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		want  string
	}{
		{"endless body", then(after(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n") }), endless(`{"a":1,`)), "token: a response of more than 65536 bytes"},
		{"long token", body("200 OK", `{"access_token":"`+strings.Repeat("a", 20_000)+`"}`), "token: a token of more than 16384 bytes"},
		{"line break", body("200 OK", `{"access_token":"a\u000d\u000aX-A: b"}`), "token: a token with characters that a header cannot have"},
		{"empty token", body("200 OK", `{"access_token":""}`), "token: a response without access_token"},
		{"number", body("200 OK", `{"access_token":1}`), "token: a response without access_token"},
		{"deep JSON", body("200 OK", strings.Repeat("[", 60_000)), "token: a response without access_token"},
		{"cut JSON", body("200 OK", `{"access_token":"`), "token: "},
		{"secret as error", body("401 No", `{"error":"`+secret+`"}`), "token: 401 [redacted] from"},
		{"secret as type", body("200 OK", `{"access_token":"a","token_type":"`+secret+`"}`), "token: a token of the type"},
		{"long error", body("401 No", `{"error":"`+strings.Repeat("a", 1000)+`"}`), "token: 401 from"},
		{"redirect", body("307 Go\r\nLocation: http://127.0.0.1:1/?"+secret, ""), "token: 307 from"},
		{"no HTTP", after(says("\x00\xff\r\n\r\n")), "token: http: "},
		{"cut body", after(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{") }), "token: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := listen(t, c.serve)
			h := bind(t, p, `{"oauth2":{"tokenUrl":"http:///token?key=`+secret+`","clientId":"shop","clientSecret":"`+secret+`"}}`, target)
			out, err := again(t, h, target, patience)
			if err != nil || out.Result != probe.Failure || !strings.HasPrefix(out.Output, c.want) || len(out.Output) > 500 {
				t.Errorf("got %s %.300q, %v; want %q", out.Result, out.Output, err, c.want)
			}
			if !strings.Contains(out.Output, " from http:///token") || strings.Contains(out.Output, "hunter22") {
				t.Errorf("got %q", out.Output)
			}
		})
	}
}
