package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
)

// trap is the module of
//
//	(module (memory (export "memory") 1) (func (export "probe") (result i32) unreachable))
const trap = "\x00asm\x01\x00\x00\x00" + "\x01\x05\x01\x60\x00\x01\x7f" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" +
	"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00" + "\x0a\x05\x01\x03\x00\x00\x0b"

// trapFolder returns a folder with a plugin that traps.
func trapFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "trap"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "trap", "trap.wasm"), trap)
	write(t, filepath.Join(folder, "trap", "plugin.yaml"), "apiVersion: prober.dev/v1\nname: trap\nversion: 1.0.0\n")
	return folder
}

const trapped = `apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: '{web: {readiness: {plugin: {name: trap}, period: 20ms, timeout: 1m}}}'
spec:
  containers:
  - name: web
`

func TestQuarantineIsReported(t *testing.T) {
	t.Parallel()
	folder := trapFolder(t)
	r := start(t, trapped, func(c *agent.Config) { c.PluginDirs = []string{folder} })
	events := r.stream()
	rests := func(p *streamedProbe) bool {
		return p.Last != nil && strings.HasPrefix(p.Last.Error, "in quarantine until ")
	}
	got := awaitProbe(t, events, "the end of a quarantine", rests)
	if !strings.HasSuffix(got.Last.Error, `Z: plugin "trap": wasm error: unreachable`) || got.Result != "failure" {
		t.Errorf("got %+v, last %+v", got, got.Last)
	}
	r.lines.await(t, 0, "msg=event", "reason=ProbeQuarantined", "Readiness probe is in quarantine until")
	awaitProbe(t, events, "a tick that is skipped", rests) // after the tick that began the quarantine
	_, text := r.do("GET", "/metrics")
	for _, want := range []string{
		`prober_plugin_quarantined_probes{plugin="trap"} 1`, `prober_attempt_errors_total{handler="trap",reason="trap"} 15`,
		`prober_plugin_instances{plugin="trap",state="busy"} 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}

func TestErrorPolicyOfConfigApplies(t *testing.T) {
	t.Parallel()
	folder := trapFolder(t)
	config := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, config, "apiVersion: prober.dev/v1\nkind: AgentConfig\nplugins: [{name: trap, errorPolicy: failure}]\ntotalMemory: 64Mi\n")
	r := start(t, trapped, func(c *agent.Config) { c.PluginDirs, c.ConfigFile = []string{folder}, config })
	r.lines.await(t, 0, "msg=event", "reason=Unhealthy", `Readiness probe failed: plugin \"trap\": wasm error: unreachable`)
}

func TestNewCanceledContextIsError(t *testing.T) {
	t.Parallel()
	folder := trapFolder(t)
	path := filepath.Join(t.TempDir(), "pod.yaml")
	write(t, path, trapped)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	a, err := agent.New(ctx, agent.Config{Source: fromFiles(0, path), PluginDirs: []string{folder}, Listen: "127.0.0.1:0"})
	if !errors.Is(err, stopped) {
		t.Errorf("got %v, %v", a, err)
	}
}
