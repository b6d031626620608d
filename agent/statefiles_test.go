package agent_test

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/statefile"
)

// writeStateFiles runs an agent until it has something to save in each of its state files. It returns its log.
func writeStateFiles(t *testing.T, state, config string) *lines {
	t.Helper()
	target := newTarget(t)
	r := start(t, target.external("shop"), func(c *agent.Config) { c.StateDir, c.ConfigFile = state, config })
	events := r.stream()
	awaitProbe(t, events, "ready", ready)
	post := func(path, body string) {
		t.Helper()
		if status, answer := r.overLocal("POST", path, body); status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, answer)
		}
	}
	post("/api/v1/maintenance", `{"for":"1h","match":[{"pod":"other"}]}`)
	post("/api/v1/push/backup", "")
	target.status.Store(http.StatusServiceUnavailable)
	awaitEvent(t, events, "probe", "failing", outOfMaintenance)
	r.awaitIncidents("open", func(all []api.IncidentStatus) bool { return len(all) == 1 })
	post("/api/v1/probes/default/shop/web/readiness/pause?for=1h", "")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	return r.lines
}

// stateFiles returns the files of a state directory, without the history.
func stateFiles(t *testing.T, state string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(state, func(path string, e fs.DirEntry, err error) error {
		if name := e.Name(); err == nil && !e.IsDir() && name != "lock" && !strings.HasSuffix(name, ".db") && !strings.HasSuffix(name, statefile.Suffix) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// An agent keeps each state file that it cannot read, says so once, and writes a new one.
func TestUnreadableStateFilesAreKept(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, config, configHead+"notify: {receivers: [{name: ops, exec: {command: [/bin/true]}}]}\nslo: [{name: all, objective: 99}]\npush: [{name: backup, ttl: 1h}]\n")
	state := t.TempDir()
	writeStateFiles(t, state, config)
	paths := stateFiles(t, state)
	all := strings.Join(paths, "\n")
	for _, want := range []string{"pauses.json", "maintenance.json", "slos.json", "incidents.json", "notifications.json", "pushes.jsonl", ".pod.json"} {
		if !strings.Contains(all, want) {
			t.Fatalf("no %s among\n%s", want, all)
		}
	}
	for name, text := range map[string]string{"damaged": "{\n", "newer": "{\"version\":99}\n"} {
		kept := func(path string) bool { return name != "newer" || !strings.HasSuffix(path, ".pod.json") } // which has no version
		for _, path := range paths {
			if kept(path) {
				write(t, path, text)
			}
		}
		log := writeStateFiles(t, state, config)
		for _, path := range paths {
			if !kept(path) {
				continue
			}
			if got, err := os.ReadFile(path + statefile.Suffix); string(got) != text || err != nil {
				t.Errorf("%s: kept %q of %s, %v", name, got, path, err)
			}
			if got, err := os.ReadFile(path); string(got) == text || err != nil {
				t.Errorf("%s: %s was not written again: %v", name, path, err)
			}
			if n := log.count(0, len(log.text), "level=WARN", "cannot be read", "kept="+path+statefile.Suffix); n != 1 {
				t.Errorf("%s: %d lines about %s", name, n, path)
			}
		}
	}
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.StateDir, c.ConfigFile = state, config })
	r.lines.await(t, 0, "pods applied")
	if r.lines.has(statefile.Suffix) {
		t.Error("the next agent names files that were kept")
	}
}
