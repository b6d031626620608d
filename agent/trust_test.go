package agent_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

// A running agent takes signatures as seriously as one that starts: what is not vouched
// for replaces nothing, and the last good version goes on.
func TestTrustWhileRunning(t *testing.T) {
	shelf := newShelf(t)
	file := shelf.path("prober.yaml")
	write(t, file, fileHead+"trust: {keys: [ops.pub]}\n")
	r, events, folder := withPlugins(t, func(c *agent.Config) { c.ConfigFile = file })
	path := filepath.Join(folder, "demo.wasm")
	signed := func(module []byte, name string) {
		t.Helper()
		data, err := shelf.key.Sign(&plugin.Found{Module: module}, nil)
		if err != nil {
			t.Fatal(err)
		}
		put(t, name+trust.Suffix, data)
	}
	reload := func(want int) string {
		t.Helper()
		status, body := r.do("POST", "/-/reload")
		if status != want {
			t.Fatalf("%d %s, want %d", status, body, want)
		}
		return body
	}
	trusted := func(state string) {
		t.Helper()
		if got := r.metric(`prober_plugin_trust_info{plugin="demo",trust="` + state + `"}`); got != "1" {
			t.Errorf("the plugin is not %s", state)
		}
	}
	r.lines.await(t, 0, "level=WARN", "plugin is not signed", "handler=demo")
	trusted("unsigned")

	// Signed later, the same bytes are vouched for from then on.
	v1 := guestSpec{text: "v1"}.plugin("demo", "1.0.0")
	signed(v1, path)
	reload(http.StatusOK)
	trusted("signed")
	write(t, file, fileHead+"trust: {require: true, keys: [ops.pub]}\n")
	reload(http.StatusOK)

	// Other bytes under the old signature.
	v2 := guestSpec{text: "v2"}.plugin("demo", "2.0.0")
	put(t, path, v2)
	if body := reload(http.StatusInternalServerError); !strings.Contains(body, "the signature of key "+shelf.key.ID) || !strings.Contains(body, plugin.Digest(v2)) {
		t.Errorf("got %s", body)
	}
	awaitOutput(t, events, "v1")

	// Without any.
	if err := os.Remove(path + trust.Suffix); err != nil {
		t.Fatal(err)
	}
	if body := reload(http.StatusInternalServerError); !strings.Contains(body, "not signed, and trust.require is set") {
		t.Errorf("got %s", body)
	}
	awaitOutput(t, events, "v1")

	// With its own.
	signed(v2, path)
	awaitOutput(t, events, "v2")
	r.lines.await(t, 0, "plugin loaded", "version=2.0.0", "signer="+shelf.key.ID)
	trusted("signed")
}

// A lock holds for what replaces a plugin as for the plugin.
func TestLockWhileRunning(t *testing.T) {
	module := guestSpec{text: "v1"}.plugin("demo", "1.0.0")
	lock := filepath.Join(t.TempDir(), trust.LockFile)
	found := func(module []byte) plugin.Found {
		m, err := plugin.ReadModule("demo.wasm", module)
		if err != nil {
			t.Fatal(err)
		}
		return plugin.Found{Manifest: m, Path: "demo.wasm", Module: module}
	}
	locked := func(module []byte) {
		data, err := trust.NewLock([]plugin.Found{found(module)}, unsigned).Encode()
		if err != nil {
			t.Fatal(err)
		}
		put(t, lock, data)
	}
	locked(module)
	r, events, folder := withPlugins(t, func(c *agent.Config) { c.LockFile = lock })
	v2 := guestSpec{text: "v2"}.plugin("demo", "2.0.0")
	put(t, filepath.Join(folder, "demo.wasm"), v2)
	status, body := r.do("POST", "/-/reload")
	if want := "its digest is " + plugin.Digest(v2) + ", locked is " + plugin.Digest(module); status != http.StatusInternalServerError || !strings.Contains(body, want) {
		t.Errorf("%d %s, want %s", status, body, want)
	}
	awaitOutput(t, events, "v1")
	locked(v2)
	awaitOutput(t, events, "v2")
}
