package manager_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// herd makes the probes of a test tick on whole seconds.
var herd = compat(manager.Compat(probe.CompatHerd))

// updateRig returns a manager with one running pod, whose container "web" has a failing readiness probe
// with a failure threshold of 5.
func updateRig(t *testing.T) (*rig, *v1.Pod) {
	r := newRig(t, herd)
	r.handle = func(string, []byte) (*probetest.Handler, error) { return probetest.NewHandler(failure), nil }
	pod := podOf("u", container("web", probe.Readiness))
	pod.Spec.Containers[0].ReadinessProbe.FailureThreshold = 5
	r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
	r.add(pod)
	return r, pod
}

func (r *rig) wantRun(want int) {
	r.t.Helper()
	if got := r.status("u", "web", probe.Readiness).Run; got != want {
		r.t.Errorf("run %d, want %d", got, want)
	}
}

// TestUpdatePod checks which changes keep the run.
func TestUpdatePod(t *testing.T) {
	bubble(t, "same pod changes nothing", func(t *testing.T) {
		r, pod := updateRig(t)
		r.wait(time.Second)
		r.wantRun(2)
		r.update(pod)
		r.wantRun(2)
		if got := len(r.preparations()); got != 1 {
			t.Errorf("prepared %d times", got)
		}
		r.wait(time.Second)
		r.wantRun(3)
	})
	bubble(t, "same handler and config keep the run", func(t *testing.T) {
		r, pod := updateRig(t)
		r.wait(time.Second)
		pod.Spec.Containers[0].ReadinessProbe.FailureThreshold = 3
		r.update(pod)
		r.wantRun(2)
		r.wait(time.Second)
		r.wantRun(3)
		r.wantCached(probe.Readiness, "c1", results.Failure)
		if got := len(r.preparations()); got != 1 {
			t.Errorf("prepared %d times", got)
		}
	})
	bubble(t, "another config prepares another handler and starts a new run", func(t *testing.T) {
		r, pod := updateRig(t)
		r.wait(time.Second)
		pod.Spec.Containers[0].ReadinessProbe.Exec.Command = []string{"other"}
		r.update(pod)
		r.wait(time.Second)
		r.wantRun(1)
		p := r.preparations()
		if len(p) != 2 || p[0].handler.Count() != 2 || p[1].handler.Count() != 1 || p[1].config != `{"command":["other"]}` {
			t.Errorf("prepared %+v", p)
		}
	})
	bubble(t, "another handler", func(t *testing.T) {
		r, pod := updateRig(t)
		pod.Annotations = map[string]string{declared.Annotation: "web: {readiness: {plugin: {name: redis}, period: 100ms}}"}
		r.update(pod)
		r.wait(time.Second)
		if got := r.status("u", "web", probe.Readiness).Handler; got != "redis" {
			t.Errorf("handler %q", got)
		}
		if p := r.preparations(); len(p) != 2 || p[1].handler.Count() < 9 {
			t.Errorf("prepared %+v", p)
		}
	})
}

func TestUpdatePodTarget(t *testing.T) {
	bubble(t, "another target starts a new run", func(t *testing.T) {
		r, pod := updateRig(t)
		text := "web: {readiness: {plugin: {name: x, target: {port: PORT}}, period: 1s, failureThreshold: 9}}"
		pod.Annotations = map[string]string{declared.Annotation: strings.Replace(text, "PORT", "1", 1)}
		r.update(pod)
		r.wait(2 * time.Second)
		pod.Annotations[declared.Annotation] = strings.Replace(text, "PORT", "2", 1)
		r.update(pod)
		r.wait(time.Second)
		r.wantRun(1)
		p := r.preparations()
		if got := p[2].handler.Calls()[0].Request.Target.Port; got != 2 {
			t.Errorf("port %d", got)
		}
	})
	bubble(t, "probe of a named port follows the port, and keeps the run", func(t *testing.T) {
		r, pod := updateRig(t)
		port := func(n int32) []v1.ContainerPort { return []v1.ContainerPort{{Name: "web", ContainerPort: n}} }
		pod.Spec.Containers[0].Ports = port(80)
		pod.Labels = map[string]string{"tier": "a"}
		r.update(pod)
		r.wait(time.Second)
		pod.Spec.Containers[0].Ports = port(81)
		pod.Labels = map[string]string{"tier": "b"}
		r.update(pod)
		r.wait(time.Second)
		r.wantRun(3)
		var got []string
		for _, call := range r.preparations()[0].handler.Calls()[1:] {
			got = append(got, fmt.Sprint(call.Request.Container.Ports, call.Request.Pod.Labels))
		}
		if want := []string{"[{web 80 }] map[tier:a]", "[{web 81 }] map[tier:b]"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		key := manager.Key{PodUID: pod.UID, Container: pod.Spec.Containers[0].Name, Kind: probe.Readiness}
		if got := fmt.Sprint(r.m.Labels(key)); got != "map[tier:b] true" {
			t.Errorf("labels %s", got)
		}
		r.m.RemovePod(pod)
		if got, ok := r.m.Labels(key); ok {
			t.Errorf("labels of a removed probe: %v", got)
		}
	})
}

// TestUpdatePodTiming checks when a change takes effect.
func TestUpdatePodTiming(t *testing.T) {
	bubble(t, "new period takes effect at once", func(t *testing.T) {
		r, pod := updateRig(t)
		h := r.preparations()[0].handler
		r.wait(500 * ms)
		pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 5
		r.update(pod)
		r.wait(4400 * ms)
		if got := h.Count(); got != 1 {
			t.Errorf("%d attempts before the new period is over", got)
		}
		r.wait(100 * ms)
		if got := h.Count(); got != 2 {
			t.Errorf("%d attempts after it", got)
		}
	})
	bubble(t, "new timeout makes the attempt under way again", func(t *testing.T) {
		r, pod := updateRig(t)
		late := failure.After(300 * ms)
		late.Deaf = true
		r.preparations()[0].handler.Then(late, failure)
		r.wait(time.Second)
		pod.Spec.Containers[0].ReadinessProbe.TimeoutSeconds = 2
		r.update(pod)
		r.wait(299 * ms)
		r.wantRun(1)
		r.wait(ms)
		r.wantRun(2)
		r.wait(time.Second)
		r.wantRun(3)
	})
	bubble(t, "paused of the annotation pauses and resumes", func(t *testing.T) {
		r, pod := updateRig(t)
		pod.Annotations = map[string]string{declared.Annotation: "web: {readiness: {exec: {command: [check]}, period: 1s, failureThreshold: 5, paused: true}}"}
		r.update(pod)
		r.wait(10 * time.Second)
		h := r.preparations()[0].handler
		if s := r.status("u", "web", probe.Readiness); !s.Paused || s.Run != 1 || h.Count() != 1 {
			t.Errorf("paused %v, run %d, %d attempts", s.Paused, s.Run, h.Count())
		}
		pod.Annotations[declared.Annotation] = strings.Replace(pod.Annotations[declared.Annotation], "true", "false", 1)
		r.update(pod)
		r.wait(time.Second)
		r.wantRun(2)
	})
	bubble(t, "paused probe stays paused when another field changes", func(t *testing.T) {
		r, pod := updateRig(t)
		if err := r.m.Pause(manager.Key{PodUID: "u", Container: "web", Kind: probe.Readiness}); err != nil {
			t.Fatal(err)
		}
		pod.Spec.Containers[0].ReadinessProbe.FailureThreshold = 2
		r.update(pod)
		r.wait(10 * time.Second)
		if s := r.status("u", "web", probe.Readiness); !s.Paused || s.Run != 1 || s.Spec.FailureThreshold != 2 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestUpdatePodMembers checks which probes exist after a change.
func TestUpdatePodMembers(t *testing.T) {
	bubble(t, "probes are added and removed", func(t *testing.T) {
		r, pod := updateRig(t)
		pod.Spec.Containers[0].ReadinessProbe = nil
		pod.Spec.Containers[0].LivenessProbe = execProbe()
		r.update(pod)
		r.wantKeys("u/web/liveness")
		r.wantCached(probe.Readiness, "c1", unset)
	})
	bubble(t, "probes of a removed container are stopped; other pods are not changed", func(t *testing.T) {
		r, pod := updateRig(t)
		r.add(probedPod("v"))
		pod.Spec.Containers[0] = container("new", probe.Liveness)
		r.update(pod)
		r.wantKeys(append(probedKeys("v"), "u/new/liveness")...)
	})
	bubble(t, "changed restart policy ends the worker of a terminated container", func(t *testing.T) {
		r, pod := updateRig(t)
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		r.update(pod)
		r.store.SetPodStatus(pod, statusOf(terminated("web", "c1", 1)))
		r.wait(time.Second)
		r.wantKeys()
	})
	bubble(t, "concurrent calls", func(t *testing.T) {
		r, pod := updateRig(t)
		var wg sync.WaitGroup
		for i := range 20 {
			changed := pod.DeepCopy()
			changed.Spec.Containers[0].ReadinessProbe.FailureThreshold = int32(i + 1)
			changed.Spec.Containers[0].ReadinessProbe.Exec.Command = []string{fmt.Sprint(i % 3)}
			wg.Go(func() {
				if err := r.m.UpdatePod(t.Context(), changed); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.wantKeys("u/web/readiness")
	})
	bubble(t, "pod that was never added is added", func(t *testing.T) {
		r := newRig(t)
		r.update(probedPod("u"))
		r.wantKeys(probedKeys("u")...)
	})
}

// TestUpdatePodErrors checks that a refused change has no effect.
func TestUpdatePodErrors(t *testing.T) {
	bubble(t, "probe with an invalid change goes on as it was", func(t *testing.T) {
		r, pod := updateRig(t)
		pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = -1
		pod.Spec.Containers[0].LivenessProbe = execProbe()
		if err := r.m.UpdatePod(t.Context(), pod); err == nil || !strings.Contains(err.Error(), "periodSeconds") {
			t.Errorf("got %v", err)
		}
		r.wait(time.Second)
		r.wantRun(2)
		r.wantKeys("u/web/liveness", "u/web/readiness")
	})
	bubble(t, "probe that is gone ends though another has an error", func(t *testing.T) {
		r, pod := updateRig(t)
		pod.Spec.Containers[0].LivenessProbe = execProbe()
		r.update(pod)
		r.wantKeys("u/web/liveness", "u/web/readiness")
		pod.Spec.Containers[0].LivenessProbe = nil
		pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = -1
		if err := r.m.UpdatePod(t.Context(), pod); err == nil {
			t.Error("no error")
		}
		r.wantKeys("u/web/readiness")
	})
	bubble(t, "pod without a UID", func(t *testing.T) {
		r, pod := updateRig(t)
		pod.UID = ""
		if err := r.m.UpdatePod(t.Context(), pod); err == nil || !strings.HasSuffix(err.Error(), "has no UID") {
			t.Errorf("got %v", err)
		}
	})
	for name, text := range map[string]string{
		"with a wrong field": "web: {readiness: {plugin: {name: redis}, perod: 1s}}",
		"that is no YAML":    "web: {readiness: {",
	} {
		bubble(t, "an annotation "+name+" leaves its probes as they are", func(t *testing.T) {
			r, pod := updateRig(t)
			pod.Annotations = map[string]string{declared.Annotation: "web: {readiness: {plugin: {name: redis}, period: 1s}}"}
			r.update(pod)
			pod.Annotations[declared.Annotation] = text
			if err := r.m.UpdatePod(t.Context(), pod); err == nil {
				t.Error("no error")
			}
			if got := r.status("u", "web", probe.Readiness).Handler; got != "redis" {
				t.Errorf("handler %q", got)
			}
		})
	}
	bubble(t, "probe goes on when its new handler cannot be prepared", func(t *testing.T) {
		r, pod := updateRig(t)
		r.handle = func(string, []byte) (*probetest.Handler, error) { return nil, errors.New("no") }
		pod.Spec.Containers[0].ReadinessProbe.Exec.Command = []string{"other"}
		if err := r.m.UpdatePod(t.Context(), pod); err == nil {
			t.Error("no error")
		}
		r.wait(time.Second)
		r.wantRun(2)
	})
}

func TestTriggerPauseResume(t *testing.T) {
	key := manager.Key{PodUID: "u", Container: "web", Kind: probe.Readiness}
	bubble(t, "trigger", func(t *testing.T) {
		r, _ := updateRig(t)
		r.wait(300 * ms)
		if err := r.m.Trigger(key); err != nil {
			t.Error(err)
		}
		r.wait(999 * ms)
		r.wantRun(2)
		r.wait(ms)
		r.wantRun(3)
	})
	bubble(t, "pause and resume", func(t *testing.T) {
		r, _ := updateRig(t)
		if err := r.m.Pause(key); err != nil {
			t.Error(err)
		}
		r.wait(10 * time.Second)
		if s := r.status("u", "web", probe.Readiness); !s.Paused || s.Run != 1 || !s.Next.IsZero() || s.Result != results.Failure {
			t.Errorf("got %+v", s)
		}
		if err := r.m.Resume(key); err != nil {
			t.Error(err)
		}
		r.wait(0)
		r.wantRun(2)
	})
	bubble(t, "error of an unknown probe names it", func(t *testing.T) {
		r, _ := updateRig(t)
		for name, do := range map[string]func(manager.Key) error{"trigger": r.m.Trigger, "pause": r.m.Pause, "resume": r.m.Resume} {
			err := do(manager.Key{PodUID: "u", Container: "db", Kind: probe.Startup})
			if err == nil || !strings.Contains(err.Error(), "startup") || !strings.Contains(err.Error(), `"db"`) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
