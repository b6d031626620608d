package kube_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/kube"
	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

const readiness = `{web: {readiness: {httpGet: {path: /r, port: http}, period: 1s, failureThreshold: 2}}}`

// bubble runs a test of a source in a synctest bubble.
func bubble(t *testing.T, test func(w *world), edit ...func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, edit...)
		test(w)
		w.end()
	})
}

func TestSourceFollowsAnnotatedPods(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.script("/r", success, failure)
		plain := podNamed("plain", readiness)
		delete(plain.Annotations, declared.Annotation)
		plain.Spec.ReadinessGates = nil
		pod := podNamed("web", readiness)
		pod.Spec.Containers[0].LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
		pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "TOKEN", Value: "secret"}}
		w.cluster.set(plain)
		w.cluster.set(pod)
		w.start()
		w.wait(100 * time.Millisecond)
		w.wantConditions("web", "readiness.web=success")
		if started, ready := w.ready(pod); !started || !ready {
			t.Errorf("started %t, ready %t", started, ready)
		}
		if probes := w.manager.Probes(); len(probes) != 1 || probes[0].Handler != "http" {
			t.Errorf("probes: %+v", probes)
		}
		all := w.source.Pods()
		if len(all) != 1 || all[0].Name != "web" || len(all[0].Spec.Containers[0].Env) > 0 || all[0].Spec.Containers[0].LivenessProbe != nil {
			t.Errorf("pods: %+v", all)
		}
		w.wait(2 * time.Second)
		w.wantConditions("web", "readiness.web=failure!")
		w.wantEvents("Warning Unhealthy Readiness probe failed: bad")
		if _, ready := w.ready(pod); ready {
			t.Error("the container is ready after the failure")
		}
		if w.setOf("web").UID != pod.UID || !w.setOf("web").Gated || w.setOf("web").PerProbe {
			t.Errorf("got %+v", w.setOf("web"))
		}
		w.cluster.remove("web")
		w.wait(time.Second)
		count := h.Count()
		w.wait(5 * time.Second)
		if h.Count() != count || len(w.manager.Probes()) > 0 {
			t.Error("the probe goes on after the end of the pod")
		}
		if _, ok := w.source.PodStatus(pod.UID); ok || !slices.Contains(locked(w, &w.removed), pod.UID) || len(w.source.Pods()) > 0 {
			t.Error("the pod is not forgotten")
		}
	})
}

func TestSourceChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1.Pod)
		want   int // probes
	}{
		{"the annotation is removed", func(p *v1.Pod) { delete(p.Annotations, declared.Annotation) }, 0},
		{"the pod has succeeded", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }, 0},
		{"the pod has failed", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, 0},
		{"another UID", func(p *v1.Pod) { p.UID = "uid-new" }, 2},
		{"a probe is removed", func(p *v1.Pod) { p.Annotations[declared.Annotation] = readiness }, 1},
		{"the pod is deleted", func(p *v1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				pod := podNamed("web", `{web: {readiness: {tcpSocket: {port: 1}}, liveness: {tcpSocket: {port: 2}}}}`)
				w.cluster.set(pod)
				w.start()
				w.wait(time.Second)
				if n := len(w.manager.Probes()); n != 2 {
					t.Fatalf("%d probes", n)
				}
				c.change(pod)
				w.cluster.set(pod)
				w.wait(time.Second)
				probes := w.manager.Probes()
				if len(probes) != c.want {
					t.Errorf("%d probes, want %d", len(probes), c.want)
				}
				for _, p := range probes {
					if p.UID != pod.UID {
						t.Errorf("a probe of %s is left", p.UID)
					}
				}
			})
		})
	}
}

func TestSourceInvalidAnnotation(t *testing.T) {
	bubble(t, func(w *world) {
		pod := podNamed("web", `{web: {readiness: {httpGet: {port: http}, perid: 1s}, liveness: {tcpSocket: {port: 1}, period: 500ms}}}`)
		other := podNamed("other", readiness)
		w.cluster.set(pod)
		w.cluster.set(other)
		w.start()
		w.wait(time.Second)
		w.wantEvents(`Warning ProbeInvalid metadata.annotations[prober.dev/probes][web].readiness.perid: Invalid value: unknown field`)
		w.wantConditions("web", "liveness.web=success", "readiness.web=unknown?")
		w.wantConditions("other", "readiness.web=success")
		pod.Labels = map[string]string{"a": "b"}
		w.cluster.set(pod)
		w.wait(time.Second)
		w.wantEvents() // no second event
		if n := w.source.NodeCounts(); n.Followed != 2 || n.Refused != 1 || n.PatchesWritten != 7 || n.Done["restart"] != 2 || n.Withheld["budget"] != 1 {
			t.Errorf("counts: %+v", n)
		}
		pod.Annotations[declared.Annotation] = readiness
		w.cluster.set(pod)
		w.wait(time.Second)
		w.wantConditions("web", "readiness.web=success")
		w.wantEvents()
		if w.logged("valid again") != 1 || w.source.NodeCounts().Refused != 0 {
			t.Error("the log does not say that the probes are valid again")
		}
		for _, err := range w.attempts() {
			if err != nil {
				t.Errorf("a fault of a pod's author is one of the agent: %v", err)
			}
		}
	})
}

func TestSourceUnreadableAnnotationNeverMakesReady(t *testing.T) {
	bubble(t, func(w *world) {
		w.cluster.set(podNamed("web", `web: [`))
		w.start()
		w.wait(time.Second)
		w.wantConditions("web", "liveness.web=unknown?", "readiness.web=unknown?", "startup.web=unknown?")
		long := podNamed("long", "{"+strings.Repeat("ä: {}, ", 300)+"}")
		w.takeEvents()
		w.cluster.set(long)
		w.wait(time.Second)
		for _, e := range w.takeEvents() {
			if message := strings.TrimPrefix(e, "Warning ProbeInvalid "); len(message) > 1024 || !strings.HasPrefix(message, "metadata.annotations") {
				t.Errorf("%d bytes: %s", len(message), message)
			}
		}
	})
}

// A pod whose plugin takes long to compile delays no other pod, and its own probes start afterwards.
func TestSourceSlowPluginDelaysNoOtherPod(t *testing.T) {
	bubble(t, func(w *world) {
		slow := make(chan struct{})
		w.prepare = func(ctx context.Context, name string) error {
			if name != "slow" {
				return nil
			}
			select {
			case <-slow:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		for _, name := range []string{"a1", "a2", "a3"} {
			w.cluster.set(podNamed(name, `{web: {readiness: {plugin: {name: slow}}}}`))
		}
		w.start()
		w.cluster.set(podNamed("web", readiness))
		w.wait(700 * time.Millisecond)
		w.wantConditions("web", "readiness.web=success")
		w.wait(time.Minute)
		w.wantConditions("a1")
		close(slow)
		w.wait(15 * time.Second)
		for _, name := range []string{"a1", "a2", "a3"} {
			w.wantConditions(name, "readiness.web=success")
		}
		w.wantEvents()
	})
}

// An error that a plugin may resolve is returned by the attempt: the agent calls Reload when plugins have changed.
func TestSourceMissingPluginIsRetried(t *testing.T) {
	bubble(t, func(w *world) {
		missing := errors.New(`unknown handler "redis"`)
		w.prepare = func(_ context.Context, name string) error {
			if name == "redis" {
				return missing
			}
			return nil
		}
		w.cluster.set(podNamed("web", `{web: {readiness: {plugin: {name: redis}}, liveness: {tcpSocket: {port: 1}}}}`))
		w.start()
		w.wait(time.Second)
		w.wantConditions("web", "liveness.web=success", "readiness.web=unknown?")
		w.wantEvents(`Warning ProbeInvalid metadata.annotations[prober.dev/probes][web].readiness: unknown handler "redis"`)
		if last := w.attempts()[len(w.attempts())-1]; !errors.Is(last, missing) {
			t.Errorf("the attempt returned %v", last)
		}
		w.mu.Lock()
		w.prepare = nil
		w.mu.Unlock()
		if err := w.source.Reload(w.t.Context(), pods.Reload{Cause: "other plugins"}); err != nil {
			t.Error(err)
		}
		w.wait(time.Second)
		w.wantConditions("web", "liveness.web=success", "readiness.web=success")
	})
}

// The author of a pod may choose configs that a plugin always takes long to accept. Other pods with that plugin
// wait for it once, and the slow pod is retried with a back-off.
func TestSourceSlowConfigs(t *testing.T) {
	bubble(t, func(w *world) {
		tries := 0
		w.prepare = func(ctx context.Context, _ string) error {
			if ctx.Value(checkedPod{}) != "slow" {
				return nil
			}
			w.mu.Lock()
			tries++
			w.mu.Unlock()
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(10 * time.Second):
				return nil
			}
		}
		const probes = `{web: {readiness: {plugin: {name: shared}}}}`
		w.cluster.set(podNamed("slow", probes))
		w.start()
		w.wait(time.Second)
		w.cluster.set(podNamed("web", probes))
		w.wait(15 * time.Second)
		w.wantConditions("web", "readiness.web=success")
		w.wait(10 * time.Minute)
		w.mu.Lock()
		if tries > 40 {
			t.Errorf("the slow pod was prepared %d times in 10 minutes", tries)
		}
		w.prepare = nil
		w.mu.Unlock()
		w.wait(90 * time.Second)
		w.wantConditions("slow", "readiness.web=success")
	})
}

func TestSourceTransitionsHaveEvents(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.script("/r", success)
		w.cluster.set(podNamed("web", readiness))
		w.start()
		w.wait(3 * time.Second)
		w.wantEvents()
		sets := locked(w, &w.sets)
		w.wait(8 * time.Second)
		if locked(w, &w.sets) > sets+1 {
			t.Errorf("the conditions were set %d times in 8 s at rest", locked(w, &w.sets)-sets)
		}
		h.Then(warning)
		w.wait(2 * time.Second)
		w.wantEvents("Warning ProbeWarning Readiness probe warning: slow http 10.1.0.7")
		w.wantConditions("web", "readiness.web=warning")
		h.Then(failure)
		w.wait(3 * time.Second)
		w.wantEvents("Warning Unhealthy Readiness probe failed: bad http 10.1.0.7")
		h.Then(probetest.Error(errors.New("no idea")))
		w.wait(5 * time.Second)
		w.wantEvents()
		w.wantConditions("web", "readiness.web=unknown!")
		h.Then(failure)
		w.wait(3 * time.Second)
		w.wantEvents() // no event for the same state
		h.Then(success)
		w.wait(2 * time.Second)
		w.wantEvents("Normal Healthy Readiness probe succeeded after a failure http 10.1.0.7")
		if err := w.manager.Pause(manager.Key{PodUID: "uid-web", Container: "web", Kind: probe.Readiness}); err != nil {
			t.Fatal(err)
		}
		w.wait(11 * time.Second)
		w.wantConditions("web", "readiness.web=successp")
	})
}

func TestSourceBreakerFreezes(t *testing.T) {
	bubble(t, func(w *world) {
		w.cluster.set(podNamed("web", readiness))
		w.start()
		w.wait(time.Second)
		w.mu.Lock()
		w.open = "6 of 8 probes failed within 30s"
		w.mu.Unlock()
		w.wait(1500 * time.Millisecond)
		if got := w.setOf("web").Frozen; got != locked(w, &w.open) {
			t.Errorf("frozen: %q", got)
		}
		want := pods.Trouble{Name: "breaker", Text: "no condition becomes false, and nothing is restarted or evicted: 6 of 8 probes failed within 30s"}
		if got := w.source.Troubles(); !slices.Contains(got, want) || !w.source.NodeCounts().BreakerOpen {
			t.Errorf("troubles: %v", got)
		}
		for _, other := range []liveness.Scope{{Namespace: "other"}, {Namespace: "shop", Workload: "other"}} {
			w.mu.Lock()
			w.doubted = other
			w.mu.Unlock()
			w.wait(1500 * time.Millisecond)
			if got := w.setOf("web").Frozen; got != "" {
				t.Errorf("frozen with doubts about %v: %q", other, got)
			}
			if got := w.source.Troubles(); len(got) != 0 || !w.source.NodeCounts().BreakerOpen {
				t.Errorf("troubles of the agent: %v", got)
			}
		}
		for _, own := range []liveness.Scope{{Namespace: "shop"}, {Namespace: "shop", Workload: "uid-web"}} {
			w.mu.Lock()
			w.doubted = own
			w.mu.Unlock()
			w.wait(1500 * time.Millisecond)
			if got := w.setOf("web").Frozen; got == "" {
				t.Errorf("not frozen with doubts about %v", own)
			}
		}
		w.mu.Lock()
		w.open = ""
		w.mu.Unlock()
		w.wait(1500 * time.Millisecond)
		if got := w.setOf("web").Frozen; got != "" {
			t.Errorf("frozen: %q", got)
		}
	})
}

func TestSourceActsOnFailures(t *testing.T) {
	bubble(t, func(w *world) {
		w.script("/l", failure)
		pod := podNamed("web", `{web: {liveness: {httpGet: {path: /l, port: http}, period: 1s, terminationGracePeriodSeconds: 7}}}`, kube.LivenessAnnotation, "restart")
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}}}
		w.cluster.set(pod)
		w.start()
		w.wait(5 * time.Second)
		if len(w.failed()) != 1 {
			t.Fatalf("%d failures", len(w.failed()))
		}
		f := w.failed()[0]
		if f.Mode != liveness.Restart || f.ContainerID != "containerd://web-c1" || f.Kind != probe.Liveness || *f.Grace != 7 || f.Text != "bad" || f.Period != time.Second ||
			f.Pod.UID != pod.UID || f.Pod.Spec.Containers[0].Lifecycle == nil || f.Pod.Status.PodIP == "" {
			t.Errorf("got %+v", f)
		}
		if !w.actor.Failing(pod.UID, "web", probe.Liveness) || w.actor.Current(pod.UID) == nil {
			t.Error("the failure does not last")
		}
		key := manager.Key{PodUID: pod.UID, Container: "web", Kind: probe.Liveness}
		if mode, paused := w.actor.Asked(pod.UID, "web", probe.Liveness); mode != liveness.Restart || paused {
			t.Errorf("asked for %s, paused %t", mode, paused)
		}
		if err := w.manager.Pause(key); err != nil {
			t.Fatal(err)
		}
		pod.Annotations[kube.LivenessAnnotation] = "observe"
		w.cluster.set(pod)
		w.wait(100 * time.Millisecond)
		if mode, paused := w.actor.Asked(pod.UID, "web", probe.Liveness); mode != liveness.Observe || !paused {
			t.Errorf("asked for %s, paused %t", mode, paused)
		}
		if err := w.manager.Resume(key); err != nil {
			t.Fatal(err)
		}
		// A new container fails from its start: the state stays the same, and the failure is passed again.
		run(pod, "c2", time.Now())
		w.cluster.set(pod)
		w.wait(100 * time.Millisecond)
		if w.actor.Failing(pod.UID, "web", probe.Liveness) {
			t.Error("the new container has failed already")
		}
		w.wait(5 * time.Second)
		if len(w.failed()) != 2 || w.failed()[1].ContainerID != "containerd://web-c2" {
			t.Errorf("%d failures", len(w.failed()))
		}
		w.cluster.remove("web")
		w.wait(time.Second)
		if w.actor.Failing(pod.UID, "web", probe.Liveness) || w.actor.Current(pod.UID) != nil {
			t.Error("the failure outlives the pod")
		}
	}, func(w *world) { w.cfg.Policy.Liveness.Modes = []string{"observe", "restart"} })
}

// A pod that already fails may change its mode.
func TestSourceActsOnEarlierFailureWhenModeChanges(t *testing.T) {
	bubble(t, func(w *world) {
		w.script("/l", failure)
		pod := podNamed("web", `{web: {liveness: {httpGet: {path: /l, port: http}, period: 1s, terminationGracePeriodSeconds: 7}}}`)
		w.cluster.set(pod)
		w.start()
		w.wait(5 * time.Second)
		before := len(w.failed())
		pod.Annotations[kube.LivenessAnnotation] = "restart"
		w.cluster.set(pod)
		w.wait(time.Second)
		all := w.failed()[before:]
		if len(all) != 1 {
			t.Fatalf("%d failures", len(all))
		}
		if f := all[0]; f.Mode != liveness.Restart || f.ContainerID != "containerd://web-c1" || f.Kind != probe.Liveness || *f.Grace != 7 || f.Period != time.Second {
			t.Errorf("got %+v", f)
		}
	}, func(w *world) { w.cfg.Policy.Liveness.Modes = []string{"observe", "restart"} })
}

func TestSourceForbiddenOptions(t *testing.T) {
	bubble(t, func(w *world) {
		w.script("/l", failure)
		w.cluster.set(podNamed("web", `{web: {liveness: {httpGet: {path: /l, port: http}, period: 1s}}}`,
			kube.LivenessAnnotation, "evict", kube.ConditionsAnnotation, "true", kube.AgentLossAnnotation, "maybe"))
		w.start()
		w.wait(5 * time.Second)
		events := w.takeEvents()
		want := `Warning ProbeInvalid metadata.annotations[prober.dev/liveness]: Forbidden: kubernetes.liveness.modes of the agent does not allow "evict"; failures are observed; ` +
			`metadata.annotations[prober.dev/on-agent-loss]: Unsupported value: "maybe": supported values: "keep", "unready"`
		if len(events) != 2 || events[0] != want {
			t.Errorf("events %q", events)
		}
		if len(w.failed()) != 1 || w.failed()[0].Mode != liveness.Observe || !w.setOf("web").PerProbe {
			t.Errorf("failures %+v", w.failed())
		}
	})
}

// The end of the agent is no transition, and the writer gets the last states before it ends.
func TestSourceStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script("/r", success, success, failure)
		w.cluster.set(podNamed("web", readiness))
		w.start()
		w.wait(3100 * time.Millisecond)
		w.mu.Lock()
		w.pending = 1
		w.mu.Unlock()
		w.end()
		if got := w.final; !slices.Equal(got, []string{"readiness.web=failure!"}) {
			t.Errorf("the writer ended with %q", got)
		}
		w.wantConditions("web", "readiness.web=failure!")
		w.wantEvents("Warning Unhealthy")
		if len(locked(w, &w.removed)) > 0 || w.logged("were not written") != 1 {
			t.Error("the pod was removed, or the log does not say that a condition is missing")
		}
	})
}

func TestNewRequiresParts(t *testing.T) {
	if _, err := kube.New(kube.Config{Node: "worker-1"}, pods.Host{}); err == nil || !strings.Contains(err.Error(), "are required") {
		t.Error(err)
	}
}

// The agent's own list of events contains events that its manager does not record.
func TestSourceAgentEvents(t *testing.T) {
	bubble(t, func(w *world) {
		w.script("/r", success, failure)
		w.cluster.set(podNamed("bad", `{web: {readiness: {tcpSocket: {host: 10.0.0.1, port: 1}}}}`))
		w.cluster.set(podNamed("web", readiness))
		w.start()
		w.wait(10 * time.Second)
		w.actor.Recorder.Event(&v1.Pod{}, v1.EventTypeNormal, "Killing", "it failed")
		own := locked(w, &w.own)
		if len(own) != 2 || !strings.HasPrefix(own[0], "Warning ProbeInvalid metadata.annotations[prober.dev/probes]") || own[1] != "Normal Killing it failed" {
			t.Errorf("got %q", own)
		}
		if all := w.takeEvents(); !slices.Contains(all, own[0]) || !slices.Contains(all, own[1]) {
			t.Errorf("at the API server: %q", all)
		}
	})
}
