package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/internal/doctest"
)

// TestPluginAuthors follows docs/plugin-authors.md as a reader does who has Go and no
// other toolchain.
func TestPluginAuthors(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "prober"), ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	doctest.Run(t, doctest.Page{
		File: "../../docs/plugin-authors.md",
		Dir:  t.TempDir(),
		Env:  append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "GOWORK=off", "PROBER_TIMEOUT=1m"),
		Has:  func(string) bool { return false },
	})
}
