package shipped_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/shipped"
)

// TestModulesAreOfTheirSources compares the sums that the script build has recorded. The sums of the modules are
// compared with new builds by TestShippedModulesAreReproducible and make check-shipped.
func TestModulesAreOfTheirSources(t *testing.T) {
	recorded, err := os.ReadFile("modules.sum")
	if err != nil {
		t.Fatal(err)
	}
	var now strings.Builder
	for _, name := range shipped.Names() {
		module, err := os.ReadFile(filepath.Join(name, name+".wasm"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&now, "%s %s %x\n", name, sources(t, name), sha256.Sum256(module))
	}
	if now.String() != string(recorded) {
		t.Errorf("the sources or modules are now\n%s\nbut modules.sum says\n%s\nRun make plugins-shipped.", now.String(), recorded)
	}
}

// sources returns the sum of all files that a module is built from, as the function record of the script build.
func sources(t *testing.T, name string) string {
	t.Helper()
	paths := []string{"build"}
	for _, dir := range []string{"common", name, "../../sdk/rust/src"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".rs") || filepath.Base(path) == "plugin.yaml" {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(paths)
	all := sha256.New()
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(all, "%x  %s\n", sha256.Sum256(data), path)
	}
	return fmt.Sprintf("%x", all.Sum(nil))
}
