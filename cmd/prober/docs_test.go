package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/internal/doctest"
)

// TestPluginAuthorsPage runs docs/plugin-authors.md with Go and no other toolchain. Its prober is
// this test binary, which TestMain has put into PATH. It takes 15 to 20 s, since the page builds and
// tests plugins with the Go compiler.
func TestPluginAuthorsPage(t *testing.T) {
	t.Parallel()
	doctest.Run(t, doctest.Page{
		File: "../../docs/plugin-authors.md",
		Dir:  t.TempDir(),
		Env:  append(os.Environ(), "GOWORK=off", "GOPROXY=off", "PROBER_TIMEOUT=1m"),
		Has:  func(string) bool { return false },
	})
}

// TestMigrationPages runs the examples of docs/migration.
func TestMigrationPages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/migration/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if filepath.Base(page) == "_index.md" {
			continue // it has no commands
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			doctest.Run(t, doctest.Page{File: page, Dir: t.TempDir(), Env: os.Environ(), Has: func(string) bool { return false }})
		})
	}
}
