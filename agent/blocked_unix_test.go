//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
)

// blockedPod is a pod whose load blocks in the kernel, where nothing can interrupt it, until
// release is called: a secret of its probe is in a FIFO.
func blockedPod(t *testing.T) (manifest string, release func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	manifest = `apiVersion: v1
kind: Pod
metadata:
  name: blocked
  annotations:
    prober.dev/probes: '{web: {readiness: {exec: {command: [echo, "${file:` + path + `}"]}, period: 20ms, timeout: 5s}}}'
spec:
  containers:
  - name: web
    command: [sh, -c, 'echo blocked pod; sleep 1000']
`
	release = sync.OnceFunc(func() {
		w, err := os.OpenFile(path, os.O_RDWR, 0) // does not wait for a reader
		if err != nil {
			t.Error(err)
			return
		}
		write(t, path, "secret") // for who reads it again
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(release)
	return manifest, release
}

func TestLongReloadIsReported(t *testing.T) {
	web := newTarget(t)
	var pods string
	r := start(t, web.external("one"), func(c *agent.Config) {
		pods = c.Paths[0]
		agent.LongReload(c, time.Millisecond)
	})
	const metric = "prober_config_reload_in_progress_seconds"
	blocked, release := blockedPod(t)
	write(t, pods, web.external("one")+"---\n"+blocked)
	_, next := r.lines.await(t, 0, "level=WARN", "reload takes long", "of=manifests", `cause="changed files"`, "since=")
	if status, body := r.do("GET", "/readyz?verbose"); status != 200 || !strings.Contains(body, "[!]reload under way since 2") {
		t.Errorf("readyz: %d %s", status, body)
	}
	if value := r.metric(metric); value == "0" || value == "" {
		t.Errorf("%s is %q while a reload is under way", metric, value)
	}
	release()
	_, next = r.lines.await(t, next, "manifests applied", "pods=2")
	// The answer to a request comes after the end of its reload.
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

func TestStopDoesNotWaitForALoad(t *testing.T) {
	const running = `apiVersion: v1
kind: Pod
metadata: {name: running}
spec:
  containers:
  - name: main
    command: [sh, -c, 'trap "echo terminated; exit" TERM; echo armed; while :; do sleep 0.01; done']
`
	var pods string
	said := newLines()
	r := start(t, running, func(c *agent.Config) {
		pods, c.Stdout = c.Paths[0], said
		agent.LongReload(c, time.Millisecond)
	})
	said.await(t, 0, "armed")
	blocked, release := blockedPod(t)
	write(t, pods, running+"---\n"+blocked)
	r.lines.await(t, 0, "reload takes long", "of=manifests")
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	said.await(t, 0, "terminated") // though the load is still blocked
	release()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if r.lines.has("manifests applied", "pods=2") || said.has("blocked pod") {
		t.Error("manifests were applied after the agent had begun to stop")
	}
}
