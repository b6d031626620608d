package agent_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/pods"
)

// receiverFor returns a prober.yaml with a receiver of pods with a name.
func receiverFor(pod string) string {
	return configHead + "notify: {receivers: [{name: ops, exec: {command: [/bin/true]}, match: [{pod: " + pod + "}]}]}\n"
}

// A reload warns once about a selector without probes, and the next good one ends the warning.
func TestSelectorWithoutProbes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, file, receiverFor("shop"))
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.ConfigFile = file })
	awaitProbe(t, r.stream(), "ready", ready)
	shown := func() bool {
		_, body := r.do("GET", "/readyz?verbose")
		return strings.Contains(body, "[!]selectors "+file+":3: notify.receivers[0].match[0]: {pod: shpo} selects no probe of this agent\n")
	}
	write(t, file, receiverFor("shpo"))
	r.reload()
	_, next := r.lines.await(t, 0, "level=WARN", `msg="doubtful field"`, "{pod: shpo} selects no probe of this agent")
	if !shown() {
		t.Error("not in /readyz")
	}
	_, next = r.lines.await(t, next, "pods applied", "cause=request")
	r.reload()
	_, next = r.lines.await(t, next, "pods applied", "cause=request")
	if n := r.lines.count(0, next, "selects no probe"); n != 1 {
		t.Errorf("%d warnings", n)
	}
	write(t, file, receiverFor("shop"))
	r.reload()
	if shown() {
		t.Error("still in /readyz")
	}
}

// The pods of a node come and go, so that a selector without probes is no warning.
func TestSelectorWithoutProbesOfNode(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, file, receiverFor("shpo"))
	r := start(t, "", func(c *agent.Config) {
		c.ConfigFile = file
		c.Source = agent.NewMemory(memoryPod("one", newTarget(t), "")).With(func(s *pods.Source) { s.Guard, s.NodeCounts = everywhere, nodeCounts })
	})
	r.lines.await(t, 0, "pods applied", "cause=start")
	if _, body := r.do("GET", "/readyz?verbose"); !strings.Contains(body, "[+]selectors "+file+":3: ") {
		t.Errorf("/readyz: %s", body)
	}
	if r.lines.has("selects no probe") {
		t.Error("the log has a warning")
	}
}
