package shipped_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/probe"
)

// BenchmarkHTTP compares a warm attempt of httpcheck with an attempt of the built-in handler.
func BenchmarkHTTP(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "all is well") }))
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		b.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		b.Fatal(err)
	}
	target := probe.Target{Host: u.Hostname(), Port: port}
	host, err := wasm.New(wasm.Config{CacheDir: filepath.Join(b.TempDir(), "cache")})
	if err != nil {
		b.Fatal(err)
	}
	defer host.Close()
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		b.Fatal(err)
	}
	loaded, err := host.Load(b.Context(), found(b, "httpcheck"))
	if err != nil {
		b.Fatal(err)
	}
	defer loaded.Close()
	for _, c := range []struct {
		name, config string
		prepare      func(config []byte) (probe.Handler, error)
	}{
		{"handler=http", `{"port":` + u.Port() + `,"path":"/"}`, func(config []byte) (probe.Handler, error) { return registry.Prepare("http", config, target) }},
		{"handler=httpcheck", `{}`, func(config []byte) (probe.Handler, error) { return loaded.Prepare(config, target) }},
		{"handler=httpcheck/regexp", `{"failIfBodyNotMatchesRegexp":["^all is \\w+$"]}`, func(config []byte) (probe.Handler, error) { return loaded.Prepare(config, target) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			h, err := c.prepare([]byte(c.config))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				out, err := h.Probe(b.Context(), probe.Request{Target: target})
				if err != nil || out.Result != probe.Success {
					b.Fatal(out, err)
				}
			}
		})
	}
}
