package agent_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
)

const configHead = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"

// withShadow starts an agent with a plugin demo, whose output is v1, and a guest as its shadow. It returns
// the paths of both.
func withShadow(t *testing.T, g guestSpec) (r *running, events <-chan event, own, beside string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prober.yaml")
	beside = filepath.Join(dir, "next.wasm")
	put(t, beside, g.plugin("demo", "2.0.0"))
	put(t, file, []byte(configHead+"plugins: [{name: demo, shadow: true, source: next.wasm}]\n"))
	r, events, folder := withPlugins(t, func(c *agent.Config) { c.ConfigFile = file })
	return r, events, filepath.Join(folder, "demo.wasm"), beside
}

func (r *running) plugin() api.PluginStatus {
	r.t.Helper()
	var all struct{ Items []api.PluginStatus }
	r.get("/api/v1/plugins", &all)
	if len(all.Items) != 1 {
		r.t.Fatalf("got %+v", all)
	}
	return all.Items[0]
}

func TestShadowDecidesNothingUntilPromoted(t *testing.T) {
	t.Parallel()
	r, events, own, beside := withShadow(t, guestSpec{text: "v2", result: 2})
	awaitProbe(t, events, "ten ticks, in all of which it disagrees", func(p *streamedProbe) bool {
		if p.Last.Output != "v1" || p.Result != "success" {
			t.Fatalf("got %+v", p.Last)
		}
		return r.plugin().Shadow.Compared["disagree"] >= 10
	})
	got := r.plugin()
	if got.State != "running" || got.Version != "1.0.0" || got.Generation != 1 || got.Runtime != "wasm" || got.Probes != 1 ||
		got.Shadow == nil || got.Shadow.Version != "2.0.0" || got.Shadow.Path != beside || got.Shadow.Digest == got.Digest ||
		got.Shadow.Compared["agree"] != 0 || got.Shadow.Compared["disagree"] < 10 {
		t.Errorf("got %+v, shadow %+v", got, got.Shadow)
	}
	if got := r.metric(`prober_plugin_shadow_total{agreement="disagree",plugin="demo"}`); got == "" || got == "0" {
		t.Errorf("got %q", got)
	}
	if status, body := r.do("POST", "/api/v1/plugins/demo/promote", "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
		t.Errorf("%d %s", status, body)
	}
	if status, body := r.do("POST", "/api/v1/plugins/other/promote"); status != http.StatusNotFound || !strings.Contains(body, `plugin \"other\": there is no plugin of that name`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := r.do("POST", "/api/v1/plugins/demo/promote"); status != http.StatusOK || !strings.Contains(body, `"version":"2.0.0"`) {
		t.Errorf("%d %s", status, body)
	}
	if p := awaitOutput(t, events, "v2"); p.Last.Result != "failure" {
		t.Errorf("got %+v", p)
	}
	if status, body := r.do("POST", "/api/v1/plugins/demo/promote"); status != http.StatusConflict || !strings.Contains(body, "no other version beside it") {
		t.Errorf("%d %s", status, body)
	}
	// The files have not changed, so the promotion remains.
	if status, body := r.do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if got := r.plugin(); got.Version != "2.0.0" || got.Generation != 2 || got.Shadow != nil || got.Path != beside {
		t.Errorf("got %+v, shadow %+v", got, got.Shadow)
	}
	// A bad file at the plugin's path changes nothing; a good one replaces the promoted version.
	_, next := r.lines.await(t, 0, "plugin loaded", "generation=2")
	put(t, own, []byte("oops"))
	r.lines.await(t, next, "some plugins cannot be used", "not a WebAssembly module")
	put(t, own, guestSpec{text: "v3"}.plugin("demo", "3.0.0"))
	awaitOutput(t, events, "v3")
}

func TestShadowThatAgreesIsPromoted(t *testing.T) {
	t.Parallel()
	r, events, _, beside := withShadow(t, guestSpec{text: "v2"})
	put(t, filepath.Join(filepath.Dir(beside), "prober.yaml"),
		[]byte(configHead+"plugins: [{name: demo, shadow: true, source: next.wasm, promoteAfter: {ticks: 5, agreement: 0.9}}]\n"))
	awaitOutput(t, events, "v2")
	r.lines.await(t, 0, "plugin loaded", "version=2.0.0") // probes may use it a moment earlier
	if got := r.plugin(); got.Version != "2.0.0" || got.Shadow != nil {
		t.Errorf("got %+v, shadow %+v", got, got.Shadow)
	}
}

func TestBadShadowIsReported(t *testing.T) {
	t.Parallel()
	r, events, _, beside := withShadow(t, guestSpec{text: "v2", result: 1})
	_, next := r.lines.await(t, 0, "runs beside", "version=2.0.0")
	put(t, beside, guestSpec{trapsProbe: true}.plugin("demo", "3.0.0"))
	r.lines.await(t, next, "some plugins cannot be used", `plugin \"demo\": wasm error: unreachable (`+beside)
	got := r.plugin()
	if got.Error != "" || got.Shadow == nil || got.Shadow.Version != "2.0.0" || !strings.Contains(got.Shadow.Error, "unreachable") {
		t.Errorf("got %+v, shadow %+v", got, got.Shadow)
	}
	awaitOutput(t, events, "v1")
	put(t, beside, guestSpec{text: "v1"}.plugin("demo", "1.0.0")) // the same bytes as the plugin
	r.lines.await(t, next, "plugins reloaded")
	if got := r.plugin(); got.Shadow != nil {
		t.Errorf("got %+v", got.Shadow)
	}
}

// The shadow accepts manifests that the plugin rejects.
func TestRefusedManifestsAreAppliedAfterPromotion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "prober.yaml")
	put(t, filepath.Join(dir, "next.wasm"), guestSpec{text: "v2"}.plugin("demo", "2.0.0"))
	put(t, file, []byte(configHead+"plugins: [{name: demo, shadow: true, source: next.wasm}]\n"))
	r, _, _ := withPlugins(t, func(c *agent.Config) {
		c.ConfigFile = file
		put(t, filepath.Join(c.PluginDirs[0], "demo.wasm"), withManifest(guestSpec{text: "v1"}.module(),
			"apiVersion: prober.dev/v1\nname: demo\nversion: 1.0.0\nconfig: {schema: {additionalProperties: false, properties: {a: {type: integer}}}}\n"))
	})
	pods := r.manifest
	r.lines.await(t, 0, "plugin runs beside the one that decides")
	write(t, pods, demoPod+"---\n"+strings.NewReplacer("name: shop", "name: other", "{a: 1}", "{b: 1}").Replace(demoPod))
	_, next := r.lines.await(t, 0, "manifests cannot be used", "b")
	if status, body := r.do("POST", "/api/v1/plugins/demo/promote"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	r.lines.await(t, next, "pods applied", "pods=2")
}
