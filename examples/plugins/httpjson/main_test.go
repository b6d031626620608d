package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// handlers are the plugin as a native program and as a guest; read-only after
// TestMain.
var handlers = map[string]probe.Preparer{"native": sdk.Native(check{})}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "prober-httpjson-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	module, err := build(dir)
	if err != nil {
		return 0, err
	}
	modulePath = filepath.Join(dir, "plugin.wasm")
	if err := os.WriteFile(modulePath, module, 0o600); err != nil {
		return 0, err
	}
	host, err := wasm.New(wasm.Config{CacheDir: cacheDir(dir)})
	if err != nil {
		return 0, err
	}
	defer host.Close()
	guest, err := host.Load(context.Background(), module, nil)
	if err != nil {
		return 0, err
	}
	handlers["wasm"] = guest
	return m.Run(), nil
}

// cacheDir outlives the test where it can: to compile a guest takes seconds.
func cacheDir(fallback string) string {
	base, err := os.UserCacheDir()
	if err != nil {
		return filepath.Join(fallback, "cache")
	}
	return filepath.Join(base, "prober-test", "wasm")
}

// build builds the guest with its manifest inside.
func build(dir string) ([]byte, error) {
	out := filepath.Join(dir, "httpjson.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, ".")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the guest: %w\n%s", err, text)
	}
	module, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile("plugin.yaml")
	if err != nil {
		return nil, err
	}
	return plugin.Embed(module, manifest)
}

// answers maps paths to what the server says.
var answers = map[string]string{
	"/ok":      `{"status":"ok","ready":true,"queue":{"depth":42},"list":[{"n":1.5}],"text":"17","null":null}`,
	"/broken":  `{"status":`,
	"/text":    `all is well`,
	"/big":     `{"x":"` + strings.Repeat("x", maxBody) + `"}`,
	"/chunked": `{"status":"ok"}`,
}

func start(t *testing.T) probe.Target {
	t.Helper()
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		switch {
		case r.URL.Path == "/hang":
			<-hang
		case r.URL.Path == "/away":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case r.URL.Path == "/host":
			fmt.Fprintf(w, `{"host":%q}`, r.Host)
		case !ok:
			http.NotFound(w, r)
		case r.URL.Path == "/chunked":
			for _, c := range body {
				fmt.Fprintf(w, "%c", c)
				w.(http.Flusher).Flush()
			}
		default:
			fmt.Fprint(w, body)
		}
	}))
	t.Cleanup(func() {
		close(hang)
		server.Close()
	})
	return probe.Target{Host: "127.0.0.1", Port: server.Listener.Addr().(*net.TCPAddr).Port}
}

func TestVerdicts(t *testing.T) {
	target := start(t)
	for _, c := range []struct {
		config string
		want   probe.Result
		output string
	}{
		{`{"path":"/ok","field":"status"}`, probe.Success, "status is ok"},
		{`{"path":"/ok","field":"status","fail":{"equals":"ok"}}`, probe.Success, "status is ok"},
		{`{"path":"/ok","field":"status","fail":{"equals":"fine"}}`, probe.Failure, "status is ok, not fine"},
		{`{"path":"/ok","field":"ready","fail":{"equals":true}}`, probe.Success, "ready is true"},
		{`{"path":"/ok","field":"ready","warn":{"equals":false}}`, probe.Warning, "ready is true, not false"},
		{`{"path":"/ok","field":"queue.depth","warn":{"max":100},"fail":{"max":1000}}`, probe.Success, "queue.depth is 42"},
		{`{"path":"/ok","field":"queue.depth","warn":{"max":40},"fail":{"max":1000}}`, probe.Warning, "queue.depth is 42, above 40"},
		{`{"path":"/ok","field":"queue.depth","warn":{"max":10},"fail":{"max":40}}`, probe.Failure, "queue.depth is 42, above 40"},
		{`{"path":"/ok","field":"queue.depth","fail":{"min":42.5}}`, probe.Failure, "below 42.5"},
		{`{"path":"/ok","field":"queue.depth","fail":{"equals":42}}`, probe.Success, "42"},
		{`{"path":"/ok","field":"list.0.n","fail":{"min":1,"max":2}}`, probe.Success, "list.0.n is 1.5"},
		{`{"path":"/ok","field":"text","fail":{"max":20}}`, probe.Success, "text is 17"},
		{`{"path":"/ok","field":"status","fail":{"max":20}}`, probe.Failure, "status is ok, no number"},
		{`{"path":"/ok","field":"queue.length"}`, probe.Failure, "queue.length: the answer has no such field"},
		{`{"path":"/ok","field":"null"}`, probe.Failure, "null: the answer has no such field"},
		{`{"path":"/chunked","field":"status"}`, probe.Success, "status is ok"},
		{`{"path":"/broken","field":"status"}`, probe.Failure, "the body is not JSON"},
		{`{"path":"/text","field":"status"}`, probe.Failure, `the body is not JSON: "all is well"`},
		{`{"path":"/big","field":"x"}`, probe.Failure, "the body has more than 524288 bytes"},
		{`{"path":"/none","field":"status"}`, probe.Failure, "HTTP status 404"},
		{`{"path":"/away","field":"status"}`, probe.Failure, "HTTP status 302"},
		{`{"path":"/host","host":"api.internal","field":"host"}`, probe.Success, "host is api.internal"},
	} {
		t.Run(c.config, func(t *testing.T) {
			for kind, h := range handlers {
				got, err := attempt(t, h, c.config, target, 10*time.Second)
				if err != nil || got.Result != c.want || !strings.Contains(got.Output, c.output) {
					t.Errorf("%s: got %v %q, %v, want %v %q", kind, got.Result, got.Output, err, c.want, c.output)
				}
			}
		})
	}
}

func attempt(t *testing.T, h probe.Preparer, config string, target probe.Target, timeout time.Duration) (probe.Outcome, error) {
	t.Helper()
	b, err := h.Prepare([]byte(config), target)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return b.Probe(ctx, probe.Request{Target: target, Spec: probe.Spec{Timeout: timeout}})
}

func TestMetrics(t *testing.T) {
	target := start(t)
	for kind, h := range handlers {
		got, err := attempt(t, h, `{"path":"/ok","field":"queue.depth"}`, target, 10*time.Second)
		values := make(map[string]float64)
		for _, m := range got.Metrics {
			values[m.Name] = m.Value
		}
		if err != nil || values["value"] != 42 || values["get_seconds"] <= 0 {
			t.Errorf("%s: got %v, %v", kind, values, err)
		}
	}
}

func TestServerThatHangs(t *testing.T) {
	target := start(t)
	got, err := attempt(t, handlers["wasm"], `{"path":"/hang","field":"status"}`, target, 200*time.Millisecond)
	if err != nil || got.Result != probe.Failure || got.Output != "timed out after 200ms" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestBadConfigs(t *testing.T) {
	for config, want := range map[string]string{
		`{}`:                                     "config: want a field, a jsonPath or assertions",
		`{"field":"a","jsonPath":"$.a"}`:         "config.jsonPath: there is a field too",
		`{"field":"a","count":true}`:             "config.count: needs a jsonPath",
		`{"field":"a","ca":"x"}`:                 "config.ca: is of no use without tls",
		`{"field":"a","headers":{"a:":"x"}}`:     `config.headers: "a:" is no name of a header`,
		`{"field":"a","failIf":"=~ ("}`:          "config.failIf: ",
		`{"field":"a","path":"stats"}`:           "config.path: 'stats' does not match pattern",
		`{"field":"a","fail":{}}`:                "config.fail: minProperties",
		`{"field":"a","fail":{"max":"1"}}`:       "config.fail.max: got string, want number",
		`{"field":"a","warn":{"min":2,"max":1}}`: "config.warn: min 2 is above max 1",
		`{"field":"a","warning":{"min":2}}`:      "additional properties 'warning' not allowed",
	} {
		if _, err := handlers["wasm"].Prepare([]byte(config), probe.Target{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
}
