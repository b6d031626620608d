package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
)

// A folder may have plugins that have no grants on this host, or do not work. They are loaded, and fail, only
// if a probe uses them.
func TestPluginIsLoadedForItsFirstProbe(t *testing.T) {
	t.Parallel()
	r, events, _ := withPlugins(t, func(c *agent.Config) {
		folder := c.PluginDirs[0]
		put(t, filepath.Join(folder, "greedy", "plugin.yaml"), []byte("apiVersion: prober.dev/v1\nname: greedy\nversion: 1.0.0\nrequests: [{capability: kv, allow: [kv], reason: to remember}]\n"))
		put(t, filepath.Join(folder, "greedy", "x.wasm"), guestSpec{text: "greedy"}.module())
		put(t, filepath.Join(folder, "broken.wasm"), guestSpec{trapsStart: true}.plugin("broken", "1.0.0"))
		put(t, filepath.Join(folder, "other.wasm"), guestSpec{text: "other"}.plugin("other", "1.0.0"))
	})
	path := r.manifest
	if _, text := r.do("GET", "/metrics"); strings.Count(text, "prober_plugin_info{") != 1 {
		t.Errorf("plugins are loaded that nobody uses:\n%s", text)
	}
	ask := func(name string) { put(t, path, []byte(strings.Replace(demoPod, "name: demo", "name: "+name, 1))) }
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
	if err := os.WriteFile(path, []byte(demoPod), 0o600); err != nil {
		t.Fatal(err)
	}
	awaitOutput(t, events, "v1")
}

// A check command is replaced by a different one, and by one with the same content.
func TestChangedNagiosCommandIsUsed(t *testing.T) {
	t.Parallel()
	commands, folder := t.TempDir(), t.TempDir()
	for _, dir := range []string{commands, folder} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := filepath.Join(commands, "check_it")
	script := func(text string) {
		t.Helper()
		next := filepath.Join(folder, "next")
		write(t, next, "#!/bin/sh\necho "+text+"\n")
		if err := os.Chmod(next, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, command); err != nil {
			t.Fatal(err)
		}
	}
	script("v1")
	if err := os.Mkdir(filepath.Join(folder, "demo"), 0o755); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(folder, "demo", "plugin.yaml")
	write(t, manifest, "apiVersion: prober.dev/v1\nname: demo\nversion: 1.0.0\nruntime: nagios\ncommand: [check_it]\n")
	config := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, config, "apiVersion: prober.dev/v1\nkind: AgentConfig\nnagios: {folders: ["+commands+"]}\n")
	r := start(t, strings.Replace(demoPod, ", config: {a: 1}", "", 1), func(c *agent.Config) {
		c.PluginDirs, c.ConfigFile = []string{folder}, config
	})
	events := r.stream()
	for _, text := range []string{"v1", "v2", "v2", "v3"} { // v2 twice
		script(text)
		awaitOutput(t, events, text)
	}
}

// A plugin that could not be loaded because of an invalid prober.yaml is loaded once that is valid.
func TestPluginIsLoadedOnceConfigFileIsValid(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "prober.yaml")
	const good = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"
	write(t, config, good)
	r, events, _ := withPlugins(t, func(c *agent.Config) {
		c.ConfigFile = config
		put(t, filepath.Join(c.PluginDirs[0], "other.wasm"), guestSpec{text: "other"}.plugin("other", "1.0.0"))
	})
	path := r.manifest
	write(t, config, good+"oops: 1\n")
	_, next := r.lines.await(t, 0, "prober.yaml cannot be used", "oops")
	put(t, path, []byte(strings.Replace(demoPod, "name: demo", "name: other", 1)))
	_, _ = r.lines.await(t, next, "manifests cannot be used", "oops")
	write(t, config, good)
	awaitOutput(t, events, "other")
}
