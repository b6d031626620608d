package agent_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
)

// One container exits with a code, the other is killed by a signal.
func TestRestartReportsExitStatus(t *testing.T) {
	t.Parallel()
	manifest := filepath.Join(t.TempDir(), "pod.yaml")
	write(t, manifest, `apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: fails
    command: [sh, -c, "exit 3"]
  - name: killed
    command: [sh, -c, "kill -9 $$$$"]
`)
	r := start(t, "", func(c *agent.Config) { c.Source = fromFiles(time.Millisecond, manifest) })
	r.lines.await(t, 0, "container restarted", "container=fails", "cause=exit", "exitCode=3")
	r.lines.await(t, 0, "container restarted", "container=killed", "cause=exit", "exitCode=137 signal=SIGKILL")
	for _, text := range []string{"exit code 3", "exit code 137 (SIGKILL)"} {
		r.lines.await(t, 0, "reason=Started", `message="Container started again: cause exit, `+text+`"`)
	}
	_, events := r.do("GET", "/api/v1/events")
	if want := `"message":"Container started again: cause exit, exit code 137 (SIGKILL)"`; !strings.Contains(events, want) {
		t.Errorf("no %s in %s", want, events)
	}
}
