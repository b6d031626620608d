package agent_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

// shelf is a folder with a key that signs plugins, and its public key in ops.pub.
type shelf struct {
	dir string
	key trust.PrivateKey
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	key, err := trust.Generate()
	if err != nil {
		t.Fatal(err)
	}
	s := &shelf{t.TempDir(), key}
	write(t, s.path("ops.pub"), string(key.PEM()))
	return s
}

func (s *shelf) path(name string) string { return filepath.Join(s.dir, name) }

// A version without a valid signature replaces nothing.
func TestReplacementMustBeSigned(t *testing.T) {
	t.Parallel()
	shelf := newShelf(t)
	file := shelf.path("prober.yaml")
	write(t, file, configHead+"trust: {keys: [ops.pub]}\n")
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

	// The running version is signed later.
	v1 := guestSpec{text: "v1"}.plugin("demo", "1.0.0")
	signed(v1, path)
	reload(http.StatusOK)
	trusted("signed")
	write(t, file, configHead+"trust: {require: true, keys: [ops.pub]}\n")
	reload(http.StatusOK)

	// Another version with the old signature.
	v2 := guestSpec{text: "v2"}.plugin("demo", "2.0.0")
	put(t, path, v2)
	if body := reload(http.StatusInternalServerError); !strings.Contains(body, "the signature of key "+shelf.key.ID) || !strings.Contains(body, plugin.Digest(v2)) {
		t.Errorf("got %s", body)
	}
	awaitOutput(t, events, "v1")

	// Without a signature.
	if err := os.Remove(path + trust.Suffix); err != nil {
		t.Fatal(err)
	}
	if body := reload(http.StatusInternalServerError); !strings.Contains(body, "not signed, and trust.require is set") {
		t.Errorf("got %s", body)
	}
	awaitOutput(t, events, "v1")

	// With its own signature.
	signed(v2, path)
	awaitOutput(t, events, "v2")
	r.lines.await(t, 0, "plugin loaded", "version=2.0.0", "signer="+shelf.key.ID)
	trusted("signed")
}

// A version that is not in the lock file replaces nothing.
func TestReplacementMustBeLocked(t *testing.T) {
	t.Parallel()
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
		data, err := trust.NewLock([]plugin.Found{found(module)}, func(plugin.Found) string { return "" }).Encode()
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
	if want := "its digest is " + plugin.Digest(v2) + ", the lock has " + plugin.Digest(module); status != http.StatusInternalServerError || !strings.Contains(body, want) {
		t.Errorf("%d %s, want %s", status, body, want)
	}
	awaitOutput(t, events, "v1")
	locked(v2)
	awaitOutput(t, events, "v2")
}

// Versions that may not be loaded are reported: of a running plugin, of its shadow, and of a plugin in
// prober.yaml that does not run.
func TestRefusedVersionsAreReported(t *testing.T) {
	t.Parallel()
	shelf := newShelf(t)
	file := shelf.path("prober.yaml")
	write(t, file, configHead+"trust: {keys: [ops.pub]}\n")
	r, _, folder := withPlugins(t, func(c *agent.Config) { c.ConfigFile = file })
	demo, other, beside := filepath.Join(folder, "demo.wasm"), filepath.Join(folder, "other.wasm"), shelf.path("next.wasm")
	v1, v2 := guestSpec{text: "v1"}.plugin("demo", "1.0.0"), guestSpec{text: "v2"}.plugin("demo", "2.0.0")
	module := guestSpec{text: "other"}.plugin("other", "1.0.0")
	put(t, beside, v2)
	put(t, other, module)
	for path, signed := range map[string][]byte{demo: v1, other: v1} {
		data, err := shelf.key.Sign(&plugin.Found{Module: signed}, nil)
		if err != nil {
			t.Fatal(err)
		}
		put(t, path+trust.Suffix, data)
	}
	put(t, demo, v2)
	write(t, file, configHead+"trust: {require: true, keys: [ops.pub]}\nplugins: [{name: demo, shadow: true, source: next.wasm}, {name: other}]\n")
	if status, body := r.do("POST", "/-/reload"); status != http.StatusInternalServerError {
		t.Errorf("%d %s", status, body)
	}
	refused := func(path, trust string, module []byte) func(*api.RefusedStatus, string) {
		return func(got *api.RefusedStatus, text string) {
			t.Helper()
			if got == nil || got.Path != path || got.Trust != trust || got.Digest != plugin.Digest(module) ||
				got.Error == "" || strings.Contains(got.Error, "\n") || !strings.Contains(text, got.Error) {
				t.Errorf("got %+v beside %q, want %s %s", got, text, path, trust)
			}
		}
	}
	all := r.pluginsByName()
	if p := all["demo"]; p.State != "running" || p.Version != "1.0.0" || p.Digest != plugin.Digest(v1) || p.Shadow == nil {
		t.Fatalf("got %+v", p)
	}
	refused(demo, "bad-signature", v2)(all["demo"].Refused, all["demo"].Error)
	refused(beside, "unsigned", v2)(all["demo"].Shadow.Refused, all["demo"].Shadow.Error)
	if p := all["other"]; p.State != "failed" || p.Version != "" {
		t.Errorf("got %+v", p)
	}
	refused(other, "bad-signature", module)(all["other"].Refused, all["other"].Error)

	put(t, demo, v1)
	write(t, file, configHead+"trust: {keys: [ops.pub]}\nplugins: [{name: other, digest: "+plugin.Digest(v1)+"}]\n")
	r.do("POST", "/-/reload")
	all = r.pluginsByName()
	if p := all["demo"]; p.Refused != nil || p.Error != "" || p.Shadow != nil || p.Trust != "signed" {
		t.Errorf("got %+v", p)
	}
	refused(other, "", module)(all["other"].Refused, all["other"].Error)
}

// pluginsByName returns the items of /api/v1/plugins by name.
func (r *running) pluginsByName() map[string]api.PluginStatus {
	r.t.Helper()
	var list struct{ Items []api.PluginStatus }
	r.get("/api/v1/plugins", &list)
	all := make(map[string]api.PluginStatus)
	for _, p := range list.Items {
		all[p.Name] = p
	}
	return all
}
