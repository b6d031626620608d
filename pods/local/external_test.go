package local_test

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/probe"
)

// target is an HTTP server that can be made unhealthy.
type target struct {
	bad  atomic.Bool
	port string
}

func newTarget(t *testing.T) *target {
	t.Helper()
	tg := &target{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if tg.bad.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	_, tg.port, _ = net.SplitHostPort(server.Listener.Addr().String())
	return tg
}

const external = `
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    prober.dev/address: localhost
    prober.dev/probes: |
      c:
        startup: {httpGet: {path: /, port: PORT}, period: 30ms, timeout: 1m, failureThreshold: 5}
        readiness: {httpGet: {path: /, port: PORT}, period: PERIOD, timeout: 1m, failureThreshold: 1}
        liveness: {httpGet: {path: /, port: LIVE}, period: 30ms, timeout: 1m, failureThreshold: 1}
      d:
        readiness: {tcpSocket: {port: CLOSED}, period: 30ms, failureThreshold: 1}
spec:
  restartPolicy: Never
  containers:
  - {name: c}
  - {name: d}
  - {name: e, command: [sleep, "1000"]}
`

func TestExternalTarget(t *testing.T) {
	t.Parallel()
	w, tg := newWorld(t), newTarget(t)
	w.apply(t, external, "PORT", tg.port, "LIVE", tg.port, "CLOSED", freePort(t), "PERIOD", "30ms")
	w.awaitPod(t, "pod", "ready", func(p *v1.Pod) bool { return status(p, "c").Ready })
	w.mu.Lock()
	p := w.latest["pod"]
	w.mu.Unlock()
	id := status(p, "c").ContainerID
	if !strings.HasPrefix(id, "external://") || p.Status.PodIP != "localhost" {
		t.Errorf("got ID %q at %q", id, p.Status.PodIP)
	}
	if _, env, err := w.pods.Environment(id); err != nil || len(env) == 0 {
		t.Errorf("environment %q, %v", env, err)
	}
	tg.bad.Store(true)
	w.awaitPod(t, "pod", "not ready", func(p *v1.Pod) bool { return !status(p, "c").Ready })
	w.awaitTicks(t, "pod/c/liveness", 3)
	w.never(t, "no one killed it", "Killing")
	tg.bad.Store(false)
	w.awaitPod(t, "pod", "ready again", func(p *v1.Pod) bool { return status(p, "c").Ready })
	w.history("pod", func(p *v1.Pod) {
		s := status(p, "c")
		if p.Status.Phase == v1.PodRunning && s.State.Running == nil {
			t.Errorf("not running: %s", s.String())
		}
		if s.RestartCount > 0 || s.ContainerID != "" && s.ContainerID != id {
			t.Errorf("restarted: %s", s.String())
		}
	})
}

func TestExternalTargetKeepsStateAfterAgentRestart(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	keep := func(c *local.Config, h *pods.Host) { c.StateDir = state }
	tg, closed := newTarget(t), freePort(t)
	vars := func(period string) []string {
		return []string{"PORT", tg.port, "LIVE", tg.port, "CLOSED", closed, "PERIOD", period}
	}
	first := newWorld(t, keep)
	first.apply(t, external, vars("30ms")...)
	first.awaitPod(t, "pod", "decided", func(p *v1.Pod) bool { return status(p, "c").Ready && running(p, "e") })
	first.awaitTicks(t, "pod/c/liveness", 2)
	first.awaitTicks(t, "pod/d/readiness", 2)
	before := first.pods.Pods()[0]
	first.stop() // less than a second after its start

	info, err := os.Stat(state)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("state directory has mode %s", info.Mode())
	}

	second := newWorld(t, keep)
	second.apply(t, external, vars("1h")...) // only the saved results can make it ready
	second.awaitPod(t, "pod", "running", func(p *v1.Pod) bool { return running(p, "e") })
	second.awaitTicks(t, "pod/c/liveness", 3)
	second.awaitTicks(t, "pod/d/readiness", 3)
	second.history("pod", func(p *v1.Pod) {
		for _, name := range []string{"c", "d"} {
			was, is := status(&before, name), status(p, name)
			if is.ContainerID != was.ContainerID || is.Ready != was.Ready || *is.Started != *was.Started ||
				is.RestartCount != was.RestartCount || !is.State.Running.StartedAt.Time.Equal(was.State.Running.StartedAt.Time) {
				t.Errorf("%s was %s\nis %s", name, was.String(), is.String())
			}
		}
	})
	if n := second.tickCount("pod/c/startup"); n > 0 {
		t.Errorf("%d startup ticks of a container that has started", n)
	}
	id := status(&before, "c").ContainerID
	for _, kind := range probe.Kinds {
		if r, ok := second.manager.Results(kind).Get(id); !ok || r != results.Success {
			t.Errorf("%s: %s, %v", kind, r, ok)
		}
	}

	t.Run("state of removed pod is removed", func(t *testing.T) {
		files, _ := filepath.Glob(filepath.Join(state, "*.pod.json"))
		for _, file := range files {
			if err := os.WriteFile(file+".new", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		second.delete(t, "pod")
		second.stop()
		if files, _ := filepath.Glob(filepath.Join(state, "*")); len(files) > 0 {
			t.Errorf("left in the state directory: %q", files)
		}
	})
}

func TestReadyPodStaysReadyAfterAgentRestart(t *testing.T) {
	t.Parallel()
	state, tg := t.TempDir(), newTarget(t)
	keep := func(c *local.Config, h *pods.Host) { c.StateDir = state }
	text := strings.Split(external, "  - {name: d}")[0]
	text = strings.Replace(text, "      d:\n        readiness: {tcpSocket: {port: CLOSED}, period: 30ms, failureThreshold: 1}\n", "", 1)
	first := newWorld(t, keep)
	first.apply(t, text, "PORT", tg.port, "LIVE", tg.port, "PERIOD", "30ms")
	first.awaitPod(t, "pod", "ready", isReady)
	first.stop()
	second := newWorld(t, keep)
	second.apply(t, text, "PORT", tg.port, "LIVE", tg.port, "PERIOD", "30ms")
	second.awaitTicks(t, "pod/c/readiness", 3)
	second.history("pod", func(p *v1.Pod) {
		if !isReady(p) || p.Status.Phase != v1.PodRunning {
			t.Errorf("flapped: %s", p.Status.String())
		}
	})
}

func TestUnreadableStateIsIgnored(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	for _, name := range []string{"x.pod.json", "x.pod.json.new"} {
		if err := os.WriteFile(filepath.Join(state, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, func(c *local.Config, h *pods.Host) { c.StateDir = state })
	if _, err := os.Stat(filepath.Join(state, "x.pod.json.new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the unfinished file was not removed: %v", err)
	}
	tg := newTarget(t)
	w.apply(t, external, "PORT", tg.port, "LIVE", tg.port, "CLOSED", freePort(t), "PERIOD", "30ms")
	w.awaitPod(t, "pod", "ready", func(p *v1.Pod) bool { return status(p, "c").Ready })
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := local.New(local.Config{StateDir: filepath.Join(file, "state")}, testHost()); err == nil || !strings.Contains(err.Error(), "state directory: ") {
		t.Errorf("got %v", err)
	}
}
