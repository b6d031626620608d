//go:build !race

// The module takes 20 s to compile under the race detector.

package wasm_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// ExampleRegisterAll runs a plugin that is part of prober. plugin.Find reads other plugins from folders.
func ExampleRegisterAll() {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("in maintenance")) }))
	defer app.Close()
	cache, err := os.MkdirTemp("", "prober")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(cache)

	ctx := context.Background()
	host, err := wasm.New(wasm.Config{CacheDir: cache}) // for untrusted modules see Config.Compiler
	if err != nil {
		panic(err)
	}
	defer host.Close()
	found, err := shipped.Plugins()
	if err != nil {
		panic(err)
	}
	found = slices.DeleteFunc(found, func(f plugin.Found) bool { return f.Manifest.Name != "httpcheck" })
	var registry handlers.Registry
	defer registry.Close() // before the host
	if err := wasm.RegisterAll(ctx, &registry, host, found); err != nil {
		panic(err)
	}
	target := probe.Target{Host: "127.0.0.1", Port: app.Listener.Addr().(*net.TCPAddr).Port}
	h, err := registry.Prepare("httpcheck", []byte(`{"failIfBodyMatchesRegexp": ["maintenance"]}`), target)
	if err != nil {
		panic(err)
	}
	out, err := h.Probe(ctx, probe.Request{Target: target})
	fmt.Println(out.Result, out.Output, err)
	// Output: failure the body matches "maintenance" <nil>
}
