package local_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

const changing = `
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    prober.dev/probes: |
      a: {readiness: {exec: {command: ["true"]}, period: 30ms, timeout: 1m, successThreshold: THRESHOLD}}
spec:
  terminationGracePeriodSeconds: 60
  containers:
  - {name: a, command: [sleep, "1000"]}
  - {name: b, command: [sleep, "1000"], env: [{name: X, value: VALUE}]}
`

func TestApplyKeepsUnchangedContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(t, changing, "THRESHOLD", "1000", "VALUE", "one")
	w.awaitPod(t, "pod", "running", func(p *v1.Pod) bool { return running(p, "a") && running(p, "b") })
	w.awaitTicks(t, "pod/a/readiness", 5)
	w.mu.Lock()
	before := w.latest["pod"]
	w.mu.Unlock()

	w.apply(t, changing, "THRESHOLD", "1000", "VALUE", "two")
	w.awaitEvent(t, "pod Killing Container b definition changed, will be restarted")
	w.awaitPod(t, "pod", "changed", func(p *v1.Pod) bool { return running(p, "b") && status(p, "b").RestartCount == 1 })
	w.await(t, "word of the restart", func() bool { return len(w.restarts) > 0 })
	w.mu.Lock()
	after, restarts := w.latest["pod"], w.restarts
	w.mu.Unlock()
	if is, was := status(after, "a"), status(before, "a"); is.ContainerID != was.ContainerID {
		t.Errorf("the other container was restarted: %s", is.String())
	}
	if len(restarts) != 1 || restarts[0].Cause != "changed" || restarts[0].Container != "b" || restarts[0].Count != 1 {
		t.Errorf("told of restarts %+v", restarts)
	}
	if run := w.manager.Probes()[0].Run; run < 5 {
		t.Errorf("the counter of an unchanged probe was reset: run %d", run)
	}

	w.apply(t, changing, "THRESHOLD", "6", "VALUE", "two")
	w.awaitPod(t, "pod", "ready under the new threshold", isReady)
	w.never(t, "a probe's change restarts nothing", "Killing Container a")
}

// A pod with a new name is a new pod, even with the same UID: results, events and metrics have its name.
func TestRenamedPodIsNewPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.Replace(changing, "  name: pod\n", "  name: NAME\n  uid: same\n", 1)
	w.apply(t, text, "NAME", "pod", "THRESHOLD", "1", "VALUE", "one")
	w.awaitPod(t, "pod", "ready", isReady)
	w.apply(t, text, "NAME", "renamed", "THRESHOLD", "1", "VALUE", "one")
	w.awaitPod(t, "renamed", "ready", isReady)
	for _, s := range w.manager.Probes() {
		if s.Pod != "renamed" {
			t.Errorf("a probe of pod %s is left", s.Pod)
		}
	}
}

// The restart policy Never must not end the probes of a container that is being replaced.
func TestChangedContainerWithPolicyNeverKeepsProbes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := func(value string) string {
		return scenario{
			command: forever, probes: `readiness: {exec: {command: ["true"]}, period: 30ms, timeout: 1m}`,
			more: "restartPolicy: Never\n    env: [{name: X, value: " + value + "}]",
		}.manifest(asContainer)
	}
	w.apply(t, text("one"))
	w.awaitPod(t, "pod", "ready", isReady)
	w.apply(t, text("two"))
	w.awaitPod(t, "pod", "ready after the change", func(p *v1.Pod) bool { return status(p, "c").RestartCount == 1 && isReady(p) })
	w.history("pod", func(p *v1.Pod) {
		if status(p, "c").State.Terminated != nil {
			t.Errorf("terminated, which ends the probes: %s", p.Status.String())
		}
	})
}

func TestApplyAddsAndRemoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, _, _ := strings.Cut(changing, "  - {name: b")
	w.apply(t, one, "THRESHOLD", "1")
	w.awaitPod(t, "pod", "running", func(p *v1.Pod) bool { return running(p, "a") })
	w.apply(t, changing, "THRESHOLD", "1")
	w.awaitPod(t, "pod", "running with b", func(p *v1.Pod) bool { return running(p, "a") && running(p, "b") })
	other := strings.NewReplacer("name: pod", "name: other").Replace(one)
	w.apply(t, one+"\n---\n"+other, "THRESHOLD", "1")
	w.awaitEvent(t, "pod Killing Stopping container b")
	w.awaitPod(t, "pod", "without b", func(p *v1.Pod) bool { return len(p.Status.ContainerStatuses) == 1 && status(p, "a").RestartCount == 0 })
	w.awaitPod(t, "other", "ready", isReady)
	w.apply(t, other, "THRESHOLD", "1")
	w.awaitPod(t, "pod", gone, func(*v1.Pod) bool { return w.removed["pod"] })
	if pods := w.pods.Pods(); len(pods) != 1 || pods[0].Name != "other" {
		t.Errorf("left: %v", pods)
	}
	for _, s := range w.manager.Probes() {
		if s.Pod != "other" {
			t.Errorf("a probe of %s is left", s.Pod)
		}
	}
}

func TestApplyRestartsPodThatIsBeingRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := scenario{command: graceful("c"), probes: `readiness: {exec: {command: ["true"]}, period: 30ms}`, grace: "60"}.manifest(asContainer)
	w.apply(t, text)
	w.awaitStory(t, "c")
	w.apply(t, "")
	w.apply(t, text)
	w.awaitStory(t, "c", "c-end", "c")
	w.awaitPod(t, "pod", "ready again", func(p *v1.Pod) bool { return isReady(p) && p.DeletionTimestamp == nil })
}

func TestApplyRefusedProbeIsError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := scenario{command: forever, probes: `readiness: {plugin: {name: nope}}, liveness: {exec: {command: ["true"]}, period: 30ms}`}.manifest(asContainer)
	err := w.pods.Apply(t.Context(), load(t, text))
	if err == nil || !strings.Contains(err.Error(), `metadata.annotations[prober.dev/probes][c].readiness: unknown handler "nope"; known: exec, grpc, http, tcp`) {
		t.Errorf("got %v", err)
	}
	w.awaitTicks(t, "pod/c/liveness", 1)
}

func TestStopEndsAllProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := "stop-" + strings.TrimPrefix(w.dir, os.TempDir()+"/")
	w.apply(t, strings.NewReplacer("MARK", mark).Replace(`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  terminationGracePeriodSeconds: 500
  containers:
  - {name: c, command: [SELF, stubborn, DIR/up, MARK]}
  - {name: d, command: [sleep, "1000"], env: [{name: M, value: MARK}]}
`))
	w.awaitOutput(t, "pod/c: stubborn", 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- w.pods.Stop(ctx) }()
	w.awaitOutput(t, "ignored SIGTERM", 1)
	cancel()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if err := w.pods.Apply(t.Context(), nil); !errors.Is(err, local.ErrStopped) {
		t.Errorf("Apply after Stop: %v", err)
	}
	if n := len(w.manager.Probes()); n > 0 {
		t.Errorf("%d probes left", n)
	}
}

func TestWatchBeginsWithPresentState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(t, changing, "THRESHOLD", "1")
	w.awaitPod(t, "pod", "ready", isReady)
	for c := range w.pods.Watch(t.Context()) {
		if c.Pod.Name != "pod" || !isReady(c.Pod) || c.Removed {
			t.Errorf("got %+v", c)
		}
		return
	}
	t.Error("nothing")
}

func TestEnvironmentUnknownContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, _, err := w.pods.Environment("local://none"); err == nil {
		t.Error("no error")
	}
}

func TestApplyAgainAddsRefusedProbe(t *testing.T) {
	t.Parallel()
	const text = `
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    prober.dev/probes: |
      a: {readiness: {plugin: {name: late}, period: 30ms, timeout: 1m}}
spec:
  containers: [{name: a}]
`
	w := newWorld(t)
	for range 3 {
		if err := w.pods.Apply(t.Context(), load(t, text)); err == nil || !strings.Contains(err.Error(), `unknown handler "late"`) {
			t.Fatalf("got %v", err)
		}
	}
	if err := w.known.Register("late", "", probetest.NewHandler()); err != nil {
		t.Fatal(err)
	}
	w.apply(t, text)
	w.awaitTicks(t, "pod/a/readiness", 1)
}

func TestRequestReloadMayCallApply(t *testing.T) {
	t.Parallel()
	const text = `
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    prober.dev/probes: |
      a: {readiness: {plugin: {name: late}, period: 30ms, timeout: 1m}}
spec:
  containers:
  - name: a
    command: [sleep, "1000"]
    lifecycle: {preStop: {exec: {command: [sh, -c, "until test -e DIR/end; do sleep 0.01; done"]}}}
`
	var w *world
	applied := make(chan struct{})
	w = newWorld(t, func(c *local.Config, h *pods.Host) {
		reload := sync.OnceFunc(func() {
			defer close(applied)
			if err := w.known.Register("late", "", probetest.NewHandler()); err != nil {
				t.Error(err)
			}
			if err := w.pods.Apply(t.Context(), load(t, text, "DIR", w.dir)); err != nil {
				t.Error(err)
			}
		})
		h.RequestReload = func(string) { reload() }
	})
	w.apply(t, strings.ReplaceAll(text, "prober.dev/probes", "other"))
	w.awaitPod(t, "pod", "running", func(p *v1.Pod) bool { return running(p, "a") })
	if err := w.pods.Apply(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w.apply(t, text) // runs after the end of the previous pod, without its probe
	w.touch(t, "end")
	<-applied
	w.awaitTicks(t, "pod/a/readiness", 1)
}

// belated is a handler that refuses the first probe. Later calls of Prepare wait for permission.
type belated struct {
	probe.Handler
	calls                  atomic.Int32
	asked, granted, unused chan struct{}
}

// Prepare implements [probe.Preparer].
func (b *belated) Prepare([]byte, probe.Target) (probe.Handler, error) {
	if b.calls.Add(1) == 1 {
		return nil, errors.New("not yet")
	}
	close(b.asked)
	<-b.granted
	return b, nil
}

// Release implements [probe.Releaser].
func (b *belated) Release() { close(b.unused) }

// The loop of the pod adds a probe that Apply removes at the same time.
func TestProbeRemovedWhileAddedStaysRemoved(t *testing.T) {
	t.Parallel()
	const text = `
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    prober.dev/probes: |
      a: {readiness: {plugin: {name: belated}, period: 30ms, timeout: 1m}}
spec:
  containers: [{name: a}]
`
	w := newWorld(t)
	b := &belated{Handler: probetest.NewHandler(), asked: make(chan struct{}), granted: make(chan struct{}), unused: make(chan struct{})}
	if err := w.known.Register("belated", "", b); err != nil {
		t.Fatal(err)
	}
	if err := w.pods.Apply(t.Context(), load(t, text)); err == nil || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("got %v", err)
	}
	<-b.asked // Prepare was called by the loop of the pod, which has started the container
	w.apply(t, strings.Replace(text, "a: {readiness: {plugin: {name: belated}, period: 30ms, timeout: 1m}}", "", 1))
	close(b.granted)
	select {
	case <-b.unused:
	case <-time.After(patience):
		t.Fatal("the probe is there again")
	}
	if n := len(w.manager.Probes()); n > 0 {
		t.Errorf("%d probes", n)
	}
}

// twice is a handler that refuses the probes of Apply. Calls by the loop of a pod wait for permission: the first call,
// and a second one because the pod has changed meanwhile.
type twice struct {
	probe.Handler
	calls                  atomic.Int32
	asked, granted, unused chan struct{}
}

// Prepare implements [probe.Preparer].
func (h *twice) Prepare([]byte, probe.Target) (probe.Handler, error) {
	switch n := h.calls.Add(1); n {
	case 1, 3: // by Apply
		return nil, errors.New("not yet")
	case 2, 4: // by the loop
		h.asked <- struct{}{}
		<-h.granted
	}
	return h, nil
}

// Release implements [probe.Releaser].
func (h *twice) Release() { h.unused <- struct{}{} }

func TestProbeRemovedWhileAddedTwiceStaysRemoved(t *testing.T) {
	t.Parallel()
	const text = `
apiVersion: v1
kind: Pod
metadata:
  name: pod
  annotations:
    prober.dev/probes: |
      a: {PROBE}
spec:
  containers: [{name: a}]
`
	w := newWorld(t)
	h := &twice{Handler: probetest.NewHandler(), asked: make(chan struct{}), granted: make(chan struct{}), unused: make(chan struct{}, 3)}
	if err := w.known.Register("twice", "", h); err != nil {
		t.Fatal(err)
	}
	for _, x := range []string{"1", "2"} {
		probes := strings.Replace(text, "PROBE", "readiness: {plugin: {name: twice, config: {x: "+x+"}}, period: 30ms, timeout: 1m}", 1)
		if err := w.pods.Apply(t.Context(), load(t, probes)); err == nil || !strings.Contains(err.Error(), "not yet") {
			t.Errorf("got %v", err)
		}
		if x == "2" {
			h.granted <- struct{}{} // the loop then sees that the pod has changed
		}
		<-h.asked
	}
	w.apply(t, strings.Replace(text, "PROBE", "", 1))
	close(h.granted)
	for n := range 3 { // the first probe, its change, and the probe added afterwards
		select {
		case <-h.unused:
		case <-time.After(patience):
			t.Fatalf("the probe is there again: %d handlers of 3 were released", n)
		}
	}
}
