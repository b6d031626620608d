package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
)

// What no probe asks for is not loaded: a folder may hold plugins that this host has
// granted nothing, or that do not work here.
func TestAPluginThatNobodyAsksFor(t *testing.T) {
	var path string
	r, events, _ := withPlugins(t, func(c *agent.Config) {
		path = c.Paths[0]
		folder := c.PluginDirs[0]
		put(t, filepath.Join(folder, "greedy", "plugin.yaml"), []byte("apiVersion: prober.dev/v1\nname: greedy\nversion: 1.0.0\nrequests: [{capability: kv, allow: [kv], reason: to remember}]\n"))
		put(t, filepath.Join(folder, "greedy", "x.wasm"), guestSpec{text: "greedy"}.module())
		put(t, filepath.Join(folder, "broken.wasm"), guestSpec{trapsStart: true}.plugin("broken", "1.0.0"))
		put(t, filepath.Join(folder, "other.wasm"), guestSpec{text: "other"}.plugin("other", "1.0.0"))
	})
	if _, text := r.do("GET", "/metrics"); strings.Count(text, "prober_plugin_info{") != 1 {
		t.Errorf("plugins are loaded that nobody asks for:\n%s", text)
	}
	ask := func(name string) { put(t, path, []byte(strings.Replace(asks, "name: demo", "name: "+name, 1))) }
	next := 0
	for name, want := range map[string]string{
		"greedy": `the capability \"kv\" is not granted`,
		"broken": "unreachable",
	} {
		ask(name)
		_, next = r.lines.await(t, next, "manifests cannot be used", want)
	}
	ask("other")
	if p := awaitOutput(t, events, "other"); p.Handler != "other" {
		t.Errorf("got %+v", p)
	}
	if err := os.WriteFile(path, []byte(asks), 0o600); err != nil {
		t.Fatal(err)
	}
	awaitOutput(t, events, "v1")
}
