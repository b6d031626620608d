package agent_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
)

// blockedSecret blocks lookups of the variable BLOCKED until release is called.
func blockedSecret(t *testing.T) (config func(*agent.Config), release func()) {
	t.Helper()
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	return func(c *agent.Config) {
		c.LookupEnv = func(name string) (string, bool) {
			if name == "BLOCKED" {
				<-released
			}
			return "secret", true
		}
	}, release
}

// blockedPod is a pod that refers to the variable of [blockedSecret].
const blockedPod = `apiVersion: v1
kind: Pod
metadata:
  name: blocked
  annotations:
    prober.dev/probes: '{web: {readiness: {exec: {command: [echo, "${env:BLOCKED}"]}, period: 20ms, timeout: 5s}}}'
spec:
  containers:
  - name: web
    command: [sh, -c, 'echo blocked pod; sleep 1000']
`

func TestLongReloadIsReported(t *testing.T) {
	t.Parallel()
	web := newTarget(t)
	blocked, release := blockedSecret(t)
	r := start(t, web.external("one"), blocked, func(c *agent.Config) {
		agent.LongReload(c, time.Millisecond)
	})
	pods := r.manifest
	const metric = "prober_config_reload_in_progress_seconds"
	write(t, pods, web.external("one")+"---\n"+blockedPod)
	_, next := r.lines.await(t, 0, "level=WARN", "reload takes long", "of=manifests", `cause="changed files"`, "since=")
	if status, body := r.do("GET", "/readyz?verbose"); status != 200 || !strings.Contains(body, "[!]reload under way since 2") {
		t.Errorf("readyz: %d %s", status, body)
	}
	if value := r.metric(metric); value == "0" || value == "" {
		t.Errorf("%s is %q while a reload is under way", metric, value)
	}
	release()
	_, next = r.lines.await(t, next, "pods applied", "pods=2")
	// The request returns after its reload has ended.
	r.reload()
	if _, body := r.do("GET", "/readyz?verbose"); !strings.Contains(body, "[+]reload ok\n") {
		t.Errorf("after the reload: %s", body)
	}
	if value := r.metric(metric); value != "0" {
		t.Errorf("%s is %q after the reload", metric, value)
	}
	if n := r.lines.count(0, next, "reload takes long", "of=manifests", `cause="changed files"`); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestStopDoesNotWaitForReload(t *testing.T) {
	t.Parallel()
	const running = `apiVersion: v1
kind: Pod
metadata: {name: running}
spec:
  containers:
  - name: main
    command: [sh, -c, 'trap "echo terminated; exit" TERM; echo armed; while :; do sleep 0.01; done']
`
	said := newLines()
	blocked, release := blockedSecret(t)
	r := start(t, running, blocked, func(c *agent.Config) {
		c.Stdout = said
		agent.LongReload(c, time.Millisecond)
	})
	pods := r.manifest
	said.await(t, 0, "armed")
	write(t, pods, running+"---\n"+blockedPod)
	r.lines.await(t, 0, "reload takes long", "of=manifests")
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	said.await(t, 0, "terminated") // while the reload is still blocked
	release()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if r.lines.has("pods applied", "pods=2") || said.has("blocked pod") {
		t.Error("pods were applied after the agent had begun to stop")
	}
}
