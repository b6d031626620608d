package docstest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// TestModuleOfZig tests up.wasm, which Zig 0.16.0 made of probe.zig with the command of the document.
func TestModuleOfZig(t *testing.T) {
	source, err := os.ReadFile("testdata/zig/probe.zig")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/plugins/other-languages.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```zig\n"+string(source)+"```\n") {
		t.Error("the document has another source: build the module of testdata/zig again")
	}
	for _, args := range [][]string{{"plugin", "vet", "testdata/zig"}, {"plugin", "test", "testdata/zig", "--matrix"}} {
		if code, stdout, stderr := clitest.Run(nil, args...); code != 0 {
			t.Errorf("prober %q: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
}
