package agent_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/plugin/oci"
)

// A program of a registry needs a digest. It runs also while the registry is unavailable.
func TestProgramOfRegistryRuns(t *testing.T) {
	h, state := newHub(t), t.TempDir()
	_, path := processFolder(t)
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digest := h.PushProgram(t, "tester:1", oci.Program{Code: code, Manifest: []byte("apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\n")})
	config := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, config, configHead+"plugins:\n- name: tester\n  plainHTTP: true\n  source: oci://"+h.Host+"/tester@"+digest+"\n")
	pod := strings.ReplaceAll(trapped, "{name: trap}", "{name: tester, config: {mode: warning}}")
	for range 2 {
		r := start(t, pod, func(c *agent.Config) { c.ConfigFile, c.StateDir = config, state })
		awaitOutput(t, r.stream(), "nearly full")
		r.stop()
		h.away.Store(true)
	}
}

// A tag that is moved back to an older version is followed, with a warning.
func TestTagMovedBackIsFollowedWithWarning(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "1", guestSpec{text: "v2"}.plugin("demo", "2.0.0"))
	file := sourced(t, "oci://"+h.Host+"/demo:1", "")
	r := start(t, demoPod, func(c *agent.Config) { c.ConfigFile, c.StateDir = file, t.TempDir() })
	events := r.stream()
	awaitOutput(t, events, "v2")
	h.push(t, "1", guestSpec{text: "v1"}.plugin("demo", "1.9.0"))
	if status, body := r.do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	awaitOutput(t, events, "v1")
	r.lines.await(t, 0, "level=WARN", "the tag was moved to an older version of the plugin", "handler=demo", "version=1.9.0", "newest=2.0.0")
}
