package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/internal/doctest"
)

// TestPluginAuthorsPages runs the pages of docs/plugins with Go and no other toolchain, in the order of their
// weights and in one directory: the tutorial makes the project that others continue. Their prober is this test
// binary, which TestMain has put into PATH. It takes 15 to 20 s, since the pages build and test plugins with the
// Go compiler.
func TestPluginAuthorsPages(t *testing.T) {
	t.Parallel()
	dir, commands := t.TempDir(), 0
	for _, file := range doctest.InFolder(t, "../../docs/plugins") {
		commands += doctest.Run(t, doctest.Page{
			File: file,
			Dir:  dir,
			Env:  append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOSUMDB=off", "PROBER_TIMEOUT=1m"),
			Has:  func(string) bool { return false },
		})
	}
	if commands < 24 {
		t.Errorf("%d commands ran, expected at least 24", commands)
	}
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
			commands := doctest.Run(t, doctest.Page{File: page, Dir: t.TempDir(), Env: os.Environ(), Has: func(string) bool { return false }})
			if commands == 0 {
				t.Error("no command was run")
			}
		})
	}
}
