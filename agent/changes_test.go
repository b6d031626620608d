package agent_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
)

// A restarted container has a new ID when its results are logged. The log lines have its name and the reason.
func TestLogNamesReplacedContainers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pods.yaml")
	write(t, path, `apiVersion: v1
kind: Pod
metadata:
  name: job
  annotations: {prober.dev/probes: '{main: {liveness: {exec: {command: ["false"]}, period: 10ms, timeout: 1m, failureThreshold: 1}}}'}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    command: [sleep, "1000"]
`)
	r := start(t, "", func(c *agent.Config) { c.Source = fromFiles(time.Millisecond, path) })
	next, line := 0, ""
	for range 6 { // the back-off doubles
		line, next = r.lines.await(t, next, "result changed", "result=failure")
		if !strings.Contains(line, "namespace=default pod=job container=main kind=liveness") || !strings.Contains(line, " reason=") {
			t.Fatalf("got %s", line)
		}
	}
}

func TestLogOfFailureHasOutput(t *testing.T) {
	t.Parallel()
	web := newTarget(t)
	r := start(t, web.external("shop"))
	line, next := r.lines.await(t, 0, "result changed", "result=success")
	if strings.Contains(line, "output=") {
		t.Errorf("got %s", line)
	}
	web.status.Store(418)
	r.lines.await(t, next, "result changed", "result=failure", `output="HTTP probe failed with statuscode: 418"`)
}
