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

// TestPluginAuthorsPageInEveryLanguage runs docs/plugin-authors.md with every toolchain.
func TestPluginAuthorsPageInEveryLanguage(t *testing.T) {
	doctest.Run(t, doctest.Page{
		File: "../../docs/plugin-authors.md",
		Dir:  t.TempDir(),
		Env:  toolchains(t),
		Has:  func(string) bool { return true },
	})
}
