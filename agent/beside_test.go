package agent_test

import (
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/agent"
)

// The plugin.yaml beside a module is its manifest, however the module is configured.
func TestManifestBesideModuleIsWatched(t *testing.T) {
	t.Parallel()
	const manifest = "apiVersion: prober.dev/v1\nname: demo\nversion: "
	for name, configure := range map[string]func(c *agent.Config, module, file string){
		"source of prober.yaml": func(c *agent.Config, module, file string) {
			write(t, file, "apiVersion: prober.dev/v1\nkind: AgentConfig\nplugins: [{name: demo, source: "+module+"}]\n")
			c.ConfigFile = file
		},
		"source that is a folder": func(c *agent.Config, module, file string) {
			write(t, file, "apiVersion: prober.dev/v1\nkind: AgentConfig\nplugins: [{name: demo, source: "+filepath.Dir(module)+"}]\n")
			c.ConfigFile = file
		},
		"plugin-dev FILE": func(c *agent.Config, module, _ string) { c.DevPlugins = map[string]string{"demo": module} },
		"plugin-dev FOLDER": func(c *agent.Config, module, _ string) {
			c.DevPlugins = map[string]string{"demo": filepath.Dir(module)}
		},
		"its own plugin folder":  func(c *agent.Config, module, _ string) { c.PluginDirs = []string{filepath.Dir(module)} },
		"a folder of the folder": func(c *agent.Config, module, _ string) { c.PluginDirs = []string{filepath.Dir(filepath.Dir(module))} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			module, beside := filepath.Join(dir, "demo", "demo.wasm"), filepath.Join(dir, "demo", "plugin.yaml")
			put(t, module, guestSpec{text: "v1"}.module())
			put(t, beside, []byte(manifest+"1.0.0\n"))
			r := start(t, demoPod, func(c *agent.Config) { configure(c, module, filepath.Join(t.TempDir(), "prober.yaml")) })
			awaitOutput(t, r.stream(), "v1")
			if p := r.plugin(); p.Version != "1.0.0" {
				t.Errorf("got %+v", p)
			}
			put(t, beside, []byte(manifest+"2.0.0\n"))
			r.lines.await(t, 0, "plugin loaded", "version=2.0.0")
		})
	}
}
