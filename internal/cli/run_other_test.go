//go:build !linux

package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

func TestRunOfLocalPodsNeedsLinux(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod.yaml")
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    command: [sleep, '1']\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := clitest.Run(nil, "run", "-f", path, "--listen", "127.0.0.1:0")
	want := "prober: error: " + path + ":7: spec.containers[0].command: local pods need Linux\n" +
		"prober: hint: a container without a command is an external target, which can be probed from every system\n"
	if code != 64 || stderr != want {
		t.Errorf("exit code %d, %q, want 64, %q", code, stderr, want)
	}
}
