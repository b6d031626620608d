package manager_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// probedPod returns a pod with six containers, three of which have one probe each.
func probedPod(uid string) *v1.Pod {
	return podOf(uid,
		container("plain1"), container("ready", probe.Readiness), container("plain2"),
		container("live", probe.Liveness), container("plain3"), container("start", probe.Startup))
}

func probedKeys(uid string) []string {
	return []string{uid + "/ready/readiness", uid + "/live/liveness", uid + "/start/startup"}
}

func TestAddRemovePods(t *testing.T) {
	bubble(t, "#1 a new manager has no workers", func(t *testing.T) {
		newRig(t).wantKeys()
	})
	bubble(t, "#2 a pod without probes adds none", func(t *testing.T) {
		r := newRig(t)
		r.add(podOf("u", container("a"), container("b"), container("c")))
		r.wantKeys()
	})
	bubble(t, "#3 one worker for each probe", func(t *testing.T) {
		r := newRig(t)
		r.add(probedPod("u"))
		r.wantKeys(probedKeys("u")...)
	})
	bubble(t, "#3 adding a pod again changes nothing", func(t *testing.T) {
		r := newRig(t)
		h := r.always(probetest.NewHandler())
		pod := probedPod("u")
		r.store.SetPodStatus(pod, statusOf(running("ready", "c1")))
		for range 5 {
			r.add(pod)
		}
		r.wantKeys(probedKeys("u")...)
		if got := h.Count(); got != 1 {
			t.Errorf("%d attempts, want 1", got)
		}
		if got := r.m.Results(probe.Readiness); r.cached(probe.Readiness, "c1") != results.Success {
			t.Errorf("cache: %v", got)
		}
	})
	bubble(t, "#4 removing another pod changes nothing", func(t *testing.T) {
		r := newRig(t)
		r.add(probedPod("u"))
		r.m.RemovePod(podOf("other", container("a")))
		r.wantKeys(probedKeys("u")...)
	})
	bubble(t, "#5 #6 RemovePod stops the workers; a second call does nothing", func(t *testing.T) {
		r := newRig(t)
		pod := probedPod("u")
		r.store.SetPodStatus(pod, statusOf(running("ready", "c1"), running("live", "c2"), starting("start", "c3")))
		r.add(pod)
		r.wantCached(probe.Readiness, "c1", results.Success)
		for range 2 {
			r.m.RemovePod(pod)
			r.wantKeys()
			r.wantCached(probe.Readiness, "c1", unset)
			r.wantCached(probe.Liveness, "c2", unset)
			r.wantCached(probe.Startup, "c3", unset)
		}
	})
}

func TestContainersThatAreProbed(t *testing.T) {
	bubble(t, "#7 a plain init container has no workers", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", container("a"))
		pod.Spec.InitContainers = []v1.Container{container("init", probe.Kinds[:]...)}
		r.add(pod)
		r.wantKeys()
	})
	bubble(t, "#8 a restartable init container has workers", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", container("a"))
		pod.Spec.InitContainers = []v1.Container{sidecar("side", probe.Kinds[:]...)}
		r.add(pod)
		r.wantKeys("u/side/liveness", "u/side/readiness", "u/side/startup")
		for range 2 {
			r.m.RemovePod(pod)
			r.wantKeys()
		}
	})
	bubble(t, "ephemeral containers have no workers", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", container("a"))
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", LivenessProbe: execProbe()}}}
		r.add(pod)
		r.wantKeys()
	})
	bubble(t, "RemovePod stops the workers of the given containers", func(t *testing.T) {
		r := newRig(t)
		r.add(podOf("u", container("a", probe.Liveness), container("b", probe.Liveness)))
		r.m.RemovePod(podOf("u", container("a", probe.Liveness)))
		r.wantKeys("u/b/liveness")
	})
	bubble(t, "AddPod starts probes in the kubelet's order: startup, readiness, liveness; containers, then sidecars", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", container("a", probe.Kinds[:]...), container("b", probe.Liveness))
		pod.Spec.InitContainers = []v1.Container{sidecar("s", probe.Readiness)}
		for _, c := range []*v1.Container{&pod.Spec.Containers[0], &pod.Spec.Containers[1], &pod.Spec.InitContainers[0]} {
			for kind, p := range map[string]*v1.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
				if p != nil {
					p.Exec.Command = []string{c.Name + " " + kind}
				}
			}
		}
		r.add(pod)
		var got []string
		for _, p := range r.preparations() {
			got = append(got, p.config)
		}
		want := `{"command":["a startup"]} {"command":["a readiness"]} {"command":["a liveness"]} {"command":["b liveness"]} {"command":["s readiness"]}`
		if strings.Join(got, " ") != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestAddPodArguments(t *testing.T) {
	bubble(t, "AddPod neither keeps nor modifies the pod", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", v1.Container{Name: "a", LivenessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{}}}})
		before := pod.DeepCopy()
		r.add(pod)
		if pod.Spec.Containers[0].LivenessProbe.PeriodSeconds != before.Spec.Containers[0].LivenessProbe.PeriodSeconds {
			t.Error("the defaults were written into the pod")
		}
		pod.DeletionTimestamp = new(metav1.Now()) // later changes of pod do not affect the workers
		pod.Spec.Containers[0].Name = "z"
		r.store.SetPodStatus(pod, statusOf(running("a", "c1")))
		r.wait(10 * time.Second)
		r.wantCached(probe.Liveness, "c1", results.Success)
	})
	bubble(t, "pod without a UID is an error", func(t *testing.T) {
		r := newRig(t)
		if err := r.m.AddPod(t.Context(), podOf("", container("a", probe.Liveness))); err == nil {
			t.Error("no error")
		}
	})
	bubble(t, "context bounds the call", func(t *testing.T) {
		r := newRig(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("enough"))
		if err := r.m.AddPod(ctx, probedPod("u")); err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("got %v", err)
		}
		r.wantKeys()
	})
	bubble(t, "context does not bound the probes", func(t *testing.T) {
		r := newRig(t)
		h := r.always(probetest.NewHandler())
		pod := podOf("u", container("a", probe.Liveness))
		r.store.SetPodStatus(pod, statusOf(running("a", "c1")))
		ctx, cancel := context.WithCancel(t.Context())
		if err := r.m.AddPod(ctx, pod); err != nil {
			t.Fatal(err)
		}
		cancel()
		r.wait(3 * time.Second)
		if got := h.Count(); got < 3 {
			t.Errorf("%d attempts", got)
		}
	})
}

func TestAddPodErrors(t *testing.T) {
	bubble(t, "#74 probe without a handler is an error, and the others are started", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", v1.Container{Name: "a", LivenessProbe: &v1.Probe{}, ReadinessProbe: execProbe()}, container("b", probe.Liveness))
		err := r.m.AddPod(t.Context(), pod)
		if err == nil || !strings.Contains(err.Error(), "spec.containers[0].livenessProbe") {
			t.Errorf("got %v", err)
		}
		r.wantKeys("u/a/readiness", "u/b/liveness")
	})
	each(t, "#73 container without a probe has no worker, and counts as Success", func(t *testing.T, kind probe.Kind) {
		r := newRig(t)
		pod := podOf("u", container("a"))
		status := statusOf(running("a", "c1"))
		r.add(pod)
		r.m.UpdatePodStatus(pod, &status)
		if c := status.ContainerStatuses[0]; !c.Ready || !*c.Started {
			t.Errorf("ready %v, started %v", c.Ready, *c.Started)
		}
		r.wantCached(kind, "c1", unset)
	})
	bubble(t, "error of a handler that cannot be prepared names the field", func(t *testing.T) {
		r := newRig(t)
		r.handle = func(name string, config []byte) (*probetest.Handler, error) {
			if strings.Contains(string(config), "bad") {
				return nil, errors.New("command: no such thing")
			}
			return probetest.NewHandler(), nil
		}
		pod := podOf("u", container("a", probe.Liveness, probe.Readiness))
		pod.Spec.Containers[0].ReadinessProbe = execProbe("bad")
		err := r.m.AddPod(t.Context(), pod)
		if want := "spec.containers[0].readinessProbe: command: no such thing"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		r.wantKeys("u/a/liveness")
	})
	bubble(t, "each negative number is an error", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", container("a", probe.Liveness))
		p := pod.Spec.Containers[0].LivenessProbe
		p.PeriodSeconds, p.TimeoutSeconds = -1, -2
		err := r.m.AddPod(t.Context(), pod)
		for _, field := range []string{"spec.containers[0].livenessProbe.periodSeconds", "spec.containers[0].livenessProbe.timeoutSeconds"} {
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%v does not name %s", err, field)
			}
		}
		r.wantKeys()
	})
	bubble(t, "closed manager returns ErrClosed", func(t *testing.T) {
		r := newRig(t)
		if err := r.m.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.m.AddPod(t.Context(), probedPod("u")); !errors.Is(err, manager.ErrClosed) {
			t.Errorf("got %v", err)
		}
		r.wantKeys()
	})
	t.Run("Status and Handlers are required", func(t *testing.T) {
		for _, cfg := range []manager.Config{{}, {Status: new(manager.StatusStore)}, {Handlers: new(rig)}} {
			if _, err := manager.New(cfg); err == nil {
				t.Errorf("no error for %+v", cfg)
			}
		}
	})
	t.Run("cache of another kind is an error", func(t *testing.T) {
		_, err := manager.New(manager.Config{Status: new(manager.StatusStore), Handlers: new(rig), Liveness: results.New(probe.Startup)})
		if err == nil || !strings.Contains(err.Error(), "Config.Liveness") || !strings.Contains(err.Error(), "startup") {
			t.Errorf("got %v", err)
		}
	})
}

func TestCleanupPods(t *testing.T) {
	bubble(t, "#9 workers of pods that are not desired are stopped", func(t *testing.T) {
		r := newRig(t)
		r.add(probedPod("old"))
		r.add(probedPod("new"))
		r.m.CleanupPods(map[types.UID]sets.Empty{"new": {}, "never seen": {}})
		r.wantKeys(probedKeys("new")...)
	})
	bubble(t, "#10 one hundred pods, ten concurrent calls", func(t *testing.T) {
		r := newRig(t)
		for i := range 100 {
			r.add(probedPod(fmt.Sprint(i)))
		}
		if got := len(r.keys()); got != 300 {
			t.Fatalf("%d workers, want 300", got)
		}
		for range 10 {
			r.m.CleanupPods(map[types.UID]sets.Empty{})
		}
		r.wantKeys()
	})
	bubble(t, "#10 nil is an empty set", func(t *testing.T) {
		r := newRig(t)
		r.add(probedPod("u"))
		r.m.CleanupPods(nil)
		r.wantKeys()
	})
}

func TestStopLivenessAndStartup(t *testing.T) {
	terminating := func() *v1.Pod {
		pod := podOf("u", container("a", probe.Kinds[:]...))
		pod.Spec.InitContainers = []v1.Container{sidecar("s", probe.Kinds[:]...)}
		return pod
	}
	bubble(t, "#228 liveness and startup workers are stopped, also of sidecars; readiness goes on", func(t *testing.T) {
		r := newRig(t)
		h := r.always(probetest.NewHandler())
		pod := terminating()
		r.store.SetPodStatus(pod, statusOf(running("a", "c1")))
		r.add(pod)
		r.m.StopLivenessAndStartup(pod)
		r.wantKeys("u/a/readiness", "u/s/readiness")
		r.wantCached(probe.Liveness, "c1", unset)
		before := h.Count()
		h.Then(failure)
		r.wait(time.Second)
		if got := h.Count() - before; got != 1 {
			t.Errorf("%d attempts in a period, want 1", got)
		}
		r.wantCached(probe.Readiness, "c1", results.Failure)
	})
	bubble(t, "#228 sidecars are skipped, kubelet", func(t *testing.T) {
		r := newRig(t, compat(manager.KubeletV1_36))
		pod := terminating()
		r.add(pod)
		r.m.StopLivenessAndStartup(pod)
		r.wantKeys("u/a/readiness", "u/s/liveness", "u/s/readiness", "u/s/startup")
	})
	bubble(t, "other pods are not changed", func(t *testing.T) {
		r := newRig(t)
		r.add(probedPod("u"))
		r.m.StopLivenessAndStartup(podOf("v", container("live"), container("start")))
		r.wantKeys(probedKeys("u")...)
	})
}
