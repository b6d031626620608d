//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/internal/doctest"
)

// toolchains returns an environment with prober and the compilers of all languages.
func toolchains(t *testing.T) []string {
	t.Helper()
	programs, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(),
		"PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"), "GOWORK=off",
		"ASC="+filepath.Join(cache, "prober/assemblyscript/node_modules/.bin/asc"))
}

// TestPluginAuthorsPagesInEveryLanguage runs the pages of docs/plugins with every toolchain.
func TestPluginAuthorsPagesInEveryLanguage(t *testing.T) {
	t.Parallel()
	dir, commands := t.TempDir(), 0
	for _, file := range doctest.InFolder(t, "../../docs/plugins") {
		commands += doctest.Run(t, doctest.Page{
			File: file,
			Dir:  dir,
			Env:  toolchains(t),
			Has:  func(string) bool { return true },
		})
	}
	if commands < 35 {
		t.Errorf("%d commands ran, expected at least 35", commands)
	}
}
