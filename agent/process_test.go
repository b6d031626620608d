package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
)

// processFolder is a folder with the plugin "tester", a program.
func processFolder(t *testing.T) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "prober-plugin-tester")
	build := exec.Command("go", "build", "-o", path, "../handlers/process/testdata/plugin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, path+".yaml", "apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\n")
	return dir, path
}

func TestProcessPlugin(t *testing.T) {
	folder, path := processFolder(t)
	pod := strings.ReplaceAll(trapped, "{name: trap}", "{name: tester, config: {mode: warning}}")
	r := start(t, pod, func(c *agent.Config) { c.PluginDirs = []string{folder} })
	events := r.stream()
	awaitOutput(t, events, "nearly full")
	_, text := r.do("GET", "/metrics")
	for _, want := range []string{
		`prober_plugin_info{digest="sha256:`, `name="tester",runtime="process",version="1.0.0"} 1`, `prober_plugin_instances{plugin="tester",state="`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	// A file that others may write to is nothing to run: what runs goes on.
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	r.do("POST", "/-/reload")
	r.lines.await(t, 0, "level=ERROR", "is writable to others")
	awaitOutput(t, events, "nearly full")
}
