package agent_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
)

// A plugin that was refused for its mode is retried when the mode changes, although its content and times do
// not.
func TestChangedFileModeIsSeen(t *testing.T) {
	t.Parallel()
	r, _, folder := withPlugins(t)
	program := filepath.Join(folder, "prober-plugin-late")
	write(t, program+".yaml", "apiVersion: prober.dev/v1\nname: late\nversion: 1.0.0\n")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, next := r.lines.await(t, 0, "some plugins cannot be used", "prober-plugin-late is not executable")
	if err := os.Chmod(program, 0o777); err != nil {
		t.Fatal(err)
	}
	_, next = r.lines.await(t, next, "some plugins cannot be used", "prober-plugin-late is writable to others")
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	r.lines.await(t, next, "plugins reloaded", `cause="changed files"`)
}

// A reload on request tries the plugins twice: before and after the manifests.
func TestReloadLogsErrorOnce(t *testing.T) {
	t.Parallel()
	r, _, folder := withPlugins(t)
	put(t, filepath.Join(folder, "bad.wasm"), []byte("oops"))
	if status, body := r.do("POST", "/-/reload"); status != http.StatusInternalServerError {
		t.Fatalf("%d %s", status, body)
	}
	r.lines.mu.Lock()
	defer r.lines.mu.Unlock()
	var told int
	for _, line := range r.lines.text {
		if containsAll(line, []string{"some plugins cannot be used", "cause=request"}) || containsAll(line, []string{"some plugins cannot be used", "other manifests"}) {
			told++
		}
	}
	if told > 1 { // 0 if the poll has found the change earlier
		t.Errorf("told %d times in\n%s", told, strings.Join(r.lines.text, ""))
	}
}

// A version for which totalMemory was too small is retried when totalMemory grows, although neither the file
// nor its entry in prober.yaml has changed.
func TestPluginIsRetriedWithMoreMemory(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, config, configHead)
	r, events, folder := withPlugins(t, func(c *agent.Config) { c.ConfigFile = config })
	write(t, config, configHead+"totalMemory: 1Ki\n")
	if status, body := r.do("POST", "/-/reload"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	put(t, filepath.Join(folder, "demo.wasm"), guestSpec{text: "v2"}.plugin("demo", "2.0.0"))
	r.lines.await(t, 0, "some plugins cannot be used", "no instance of the plugin is free: totalMemory, which all plugins share")
	write(t, config, configHead)
	awaitOutput(t, events, "v2")
}
