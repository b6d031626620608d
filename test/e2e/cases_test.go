//go:build e2e

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest"
)

// TestExamplePluginsPassTheirCases runs the *_test.yaml files of all example plugins as `prober plugin test
// --matrix` does, against the modules that were built for the other tests.
func TestExamplePluginsPassTheirCases(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../examples/plugins/*/*" + plugintest.Suffix)
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(t.TempDir(), "cache")
	seen := make(map[string]bool)
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path))
		seen[name] = true
		t.Run(name+"/"+strings.TrimSuffix(filepath.Base(path), plugintest.Suffix), func(t *testing.T) {
			runCases(t, path, plugintest.Config{Plugin: filepath.Join(bin, "plugins", name+".wasm"), Matrix: true, CacheDir: cache})
		})
	}
	plugins, err := filepath.Glob("../../examples/plugins/*/plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range plugins {
		if name := filepath.Base(filepath.Dir(path)); !seen[name] {
			t.Errorf("the plugin %s has no cases", name)
		}
	}
}

func runCases(t *testing.T, path string, cfg plugintest.Config) {
	f, err := plugintest.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	report, err := plugintest.Run(t.Context(), f, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if !r.OK() {
			t.Errorf("%s:%d: %s (%s)\n%s\n%s%s", r.File, r.Line, r.Name, r.Variant,
				strings.Join(r.Failures, "\n"), r.Diff, strings.Join(r.Trace, "\n"))
		}
	}
}
