package agent_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
)

// A probe fails in the same way at every tick, succeeds once, and fails again.
func TestRepeatedWarningsAreFolded(t *testing.T) {
	t.Parallel()
	well := filepath.Join(t.TempDir(), "well")
	r := start(t, `apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: |
      web:
        readiness: {exec: {command: [sh, -c, 'cat `+well+` 2>/dev/null || { echo not well; exit 1; }']}, period: 20ms, timeout: 30s}
spec:
  containers:
  - name: web
`, func(c *agent.Config) { agent.FoldFirst(c, 200*time.Millisecond) })
	failure := []string{"reason=Unhealthy", "namespace=default pod=shop object=spec.containers{web}", `message="Readiness probe failed: not well\n"`}
	_, next := r.lines.await(t, 0, append(failure, "level=WARN msg=event ")...)
	for range 2 { // the interval doubles
		_, next = r.lines.await(t, next, append(failure, `level=WARN msg="event repeated"`, " times=", " in=")...)
	}
	if n := r.lines.count(0, next, append(failure, "msg=event ")...); n != 1 {
		t.Errorf("the warning was logged %d times", n)
	}
	write(t, well, "yes")
	_, next = r.lines.await(t, next, "result changed", "result=success")
	if err := os.Remove(well); err != nil {
		t.Fatal(err)
	}
	_, next = r.lines.await(t, next, append(failure, "msg=event ")...) // the first of its kind again
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r.lines.await(t, next, "msg=stopped")
}
