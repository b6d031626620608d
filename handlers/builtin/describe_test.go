package builtin_test

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/probe"
)

// silent is a CommandRunner that runs nothing.
type silent struct{ builtin.CommandRunner }

// described is a plugin whose probes have only a config.
type described struct {
	probe.HandlerFunc
	config []byte
}

func (d described) Prepare(config []byte, _ probe.Target) (probe.Handler, error) {
	return described{config: config}, nil
}

func (d described) Describe(name string, req *probe.Request) string {
	return attempt.Describe(name, attempt.URLOf(d.config), req)
}

// registry returns a registry with the built-in handlers, a plugin, and a handler without Describe.
func registry(t testing.TB) *handlers.Registry {
	t.Helper()
	var reg handlers.Registry
	err := builtin.Register(&reg, builtin.Config{Runner: silent{}})
	if err == nil {
		err = reg.Register("check", "test", described{})
	}
	if err == nil {
		err = reg.Register("plain", "test", probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{}, nil }))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &reg
}

func TestDescribe(t *testing.T) {
	reg := registry(t)
	own := probe.Target{Host: "10.0.0.7", Port: 6379}
	for _, c := range []struct {
		name, config string
		target       probe.Target
		want         string
	}{
		{"http", `{"port": 8080, "path": "/healthz"}`, probe.Target{}, "GET http://10.0.0.9:8080/healthz"},
		{"http", `{"port": "web"}`, probe.Target{}, "GET http://10.0.0.9:8081/"},
		{"http", `{"port": "none", "path": "x"}`, probe.Target{}, "GET http://10.0.0.9:none/x"},
		{"http", `{"port": 443, "scheme": "HTTPS", "host": "shop.example", "path": "/healthz?full=1"}`, probe.Target{}, "GET https://shop.example/healthz?full=1"},
		{"http", `{"port": 80, "scheme": "HTTPS", "host": "::1", "path": "/a b"}`, probe.Target{}, "GET https://[::1]:80/a%20b"},
		{"http", `{"port": 80, "host": "fe80::1"}`, probe.Target{}, "GET http://[fe80::1]/"},
		{"http", `{"port": 80, "path": "//user:hunter2@other.example/x#hunter2"}`, probe.Target{}, "GET http://10.0.0.9/x"},
		{"http", `{"port": 80, "path": "user:hunter2@other.example"}`, probe.Target{}, "GET http://10.0.0.9/"},
		{"http", `{"port": 80, "path": "/x", "httpHeaders": [{"name": "Authorization", "value": "hunter2"}, {"name": "Host", "value": "hunter2"}]}`, probe.Target{}, "GET http://10.0.0.9/x"},
		{"http", `{"port": 80, "path": "/x", "connection": "reuse"}`, probe.Target{}, "GET http://10.0.0.9/x"},
		{"http", `{"port": 80, "path": "/x", "protocol": "HTTP2"}`, probe.Target{}, "GET http://10.0.0.9/x"},
		{"http", `{"path": "/x"}`, probe.Target{Unix: "/run/app.sock"}, "GET http://localhost/x unix:/run/app.sock"},
		{"tcp", `{"port": 5432}`, probe.Target{}, "tcp 10.0.0.9:5432"},
		{"tcp", `{"port": 5432, "host": "db.example"}`, probe.Target{}, "tcp db.example:5432"},
		{"tcp", `{}`, probe.Target{Unix: "/run/app.sock"}, "tcp unix:/run/app.sock"},
		{"tcp", `{}`, own, "tcp 10.0.0.7:6379"},
		{"grpc", `{"port": 9000}`, probe.Target{}, "grpc 10.0.0.9:9000"},
		{"grpc", `{"port": 9000, "service": "shop.Health", "mode": "TLS"}`, probe.Target{}, "grpc 10.0.0.9:9000 shop.Health"},
		{"exec", `{"command": ["pg_isready", "-q"]}`, probe.Target{}, "exec pg_isready -q"},
		{"exec", `{"command": ["sh", "-c", "echo \"a\nb\" | grep a"]}`, probe.Target{}, `exec sh -c "echo \"a\nb\" | grep a"`},
		{"plain", `{}`, own, "plain 10.0.0.7:6379"},
		{"check", `{}`, own, "check 10.0.0.7:6379"},
		{"check", `{}`, probe.Target{Host: "::1", Port: 1}, "check [::1]:1"},
		{"check", `{}`, probe.Target{Unix: "/run/app.sock"}, "check unix:/run/app.sock"},
		{"check", `{}`, probe.Target{Host: "host"}, "check host"},
		{"check", `{"url": 7}`, own, "check 10.0.0.7:6379"},
		{"check", `{"url": "/stats?token=hunter2"}`, own, "check 10.0.0.7:6379/stats"},
		{"check", `{"URL": "https://hunter2"}`, own, "check 10.0.0.7:6379"},
		{"check", `{"url": "https:///healthz"}`, probe.Target{Host: "shop.example", Port: 443}, "check https://shop.example/healthz"},
		{"check", `{"url": "https:///healthz"}`, probe.Target{Unix: "/run/app.sock"}, "check https://localhost/healthz unix:/run/app.sock"},
		{"check", `{"url": "https://user:hunter2@shop.example:8443/x#hunter2"}`, own, "check https://shop.example:8443/x"},
		{"check", `{"url": "user:hunter2@shop.example"}`, own, "check 10.0.0.7:6379"},
		{"check", `{"url": "1:hunter2@shop.example"}`, own, "check 10.0.0.7:6379"},
		{"check", `{"url": "shop.example/x"}`, own, "check shop.example/x"},
	} {
		h, err := reg.Prepare(c.name, []byte(c.config), c.target)
		if err != nil {
			t.Errorf("%s %s: %v", c.name, c.config, err)
			continue
		}
		req := probe.Request{Target: c.target, PodIP: "10.0.0.9", Container: &probe.Container{Ports: []probe.Port{{Name: "web", Number: 8081}}}}
		if req.Target == (probe.Target{}) {
			req.Target.Host = req.PodIP // as the worker does
		}
		if got := probe.Describe(h, c.name, &req); got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.name, c.config, got, c.want)
		}
		probe.Release(h)
	}
}

// TestDescribeWithoutHost has pods without an IP, as before their start.
func TestDescribeWithoutHost(t *testing.T) {
	reg := registry(t)
	for _, c := range []struct {
		name, config string
		target       probe.Target
		want         string
	}{
		{"http", `{"port": 8080, "path": "/healthz"}`, probe.Target{}, "GET http://HOST:8080/healthz"},
		{"http", `{"port": 443, "scheme": "HTTPS"}`, probe.Target{}, "GET https://HOST/"},
		{"http", `{"port": "none"}`, probe.Target{}, "GET http://HOST:none/"},
		{"http", `{"port": 80, "host": "shop.example"}`, probe.Target{}, "GET http://shop.example/"},
		{"tcp", `{"port": 5432}`, probe.Target{}, "tcp HOST:5432"},
		{"tcp", `{}`, probe.Target{Port: 5432}, "tcp HOST:5432"},
		{"tcp", `{}`, probe.Target{Unix: "/run/app.sock"}, "tcp unix:/run/app.sock"},
		{"grpc", `{"port": 9000, "service": "shop.Health"}`, probe.Target{}, "grpc HOST:9000 shop.Health"},
		{"exec", `{"command": ["true"]}`, probe.Target{}, "exec true"},
		{"plain", `{}`, probe.Target{}, "plain"},
		{"plain", `{}`, probe.Target{Port: 6379}, "plain HOST:6379"},
		{"check", `{}`, probe.Target{}, "check"},
		{"check", `{}`, probe.Target{Port: 6379}, "check HOST:6379"},
		{"check", `{"url": "/stats"}`, probe.Target{}, "check HOST/stats"},
		{"check", `{"url": "https:///healthz"}`, probe.Target{Port: 8443}, "check https://HOST:8443/healthz"},
		{"check", `{"url": "https://shop.example/x"}`, probe.Target{Port: 8443}, "check https://shop.example/x"},
	} {
		h, err := reg.Prepare(c.name, []byte(c.config), c.target)
		if err != nil {
			t.Errorf("%s %s: %v", c.name, c.config, err)
			continue
		}
		if got := probe.Describe(h, c.name, &probe.Request{Target: c.target}); got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.name, c.config, got, c.want)
		}
		probe.Release(h)
	}
}

// FuzzDescribeHasNoSecret puts a secret into each text of a config.
func FuzzDescribeHasNoSecret(f *testing.F) {
	f.Add("hunter2-token", "/x?token=", "&a=b")
	f.Add("päss wörd\"\\\n%41", "https://user:", "@shop.example/#a")
	f.Add("//10.0.0.7:80", "http:", "")
	f.Add("\u202e\U000e0001abcd", "a", "b")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		reg := registry(t)
		const reference = "${env:SECRET}"
		text := before + reference + after
		for name, field := range map[string]any{
			"http": map[string]any{"path": text, "host": text, "port": text}, "tcp": map[string]any{"host": text, "port": text},
			"grpc": map[string]any{"port": 1, "service": text}, "exec": map[string]any{"command": []string{text, text}}, "check": map[string]any{"url": text},
		} {
			config, err := json.Marshal(field)
			if err != nil {
				t.Fatal(err)
			}
			resolved, secrets, err := declared.ResolveSecrets(config, func(string, string) (string, error) { return secret, nil })
			if err != nil {
				return // invalid UTF-8
			}
			h, err := reg.Prepare(name, resolved, probe.Target{})
			if err != nil {
				continue
			}
			got := probe.Describe(secrets.Handler(h), name, &probe.Request{Target: probe.Target{Host: "10.0.0.9", Port: 1}, PodIP: "10.0.0.9"})
			left := strings.ReplaceAll(got, "[redacted]", "\x00")
			trimmed := strings.TrimSpace(secret)
			if len(trimmed) < 4 || strings.Contains("[redacted]", trimmed) {
				continue
			}
			quoted := strconv.Quote(trimmed)
			for _, form := range []string{trimmed, url.PathEscape(trimmed), url.QueryEscape(trimmed), quoted[1 : len(quoted)-1]} {
				if strings.Contains(left, form) {
					t.Errorf("%s: %q has the secret %q", name, got, secret)
				}
			}
		}
	})
}
