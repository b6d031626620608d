package manager_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestAddAgain(t *testing.T) {
	grown := func() (before, after *v1.Pod) {
		before = podOf("u", container("a", probe.Readiness), container("b"))
		after = podOf("u", container("a", probe.Kinds[:]...), container("b", probe.Liveness))
		return before, after
	}
	bubble(t, "#227 AddPod passes over a probe that exists", func(t *testing.T) {
		r := newRig(t)
		before, after := grown()
		r.add(before)
		r.add(after)
		r.wantKeys("u/a/liveness", "u/a/readiness", "u/a/startup", "u/b/liveness")
	})
	bubble(t, "#227 AddPod stops at the first probe that exists, kubelet", func(t *testing.T) {
		r := newRig(t, compat(manager.KubeletV1_36))
		before, after := grown()
		r.add(before)
		r.add(after)
		r.wantKeys("u/a/readiness", "u/a/startup")
	})
	bubble(t, "#227 #259 AddPod passes over the rest of a container with a probe that exists, kubelet 1.37", func(t *testing.T) {
		r := newRig(t, compat(manager.KubeletV1_37))
		before, after := grown()
		r.add(before)
		r.add(after)
		r.wantKeys("u/a/readiness", "u/a/startup", "u/b/liveness") // startup comes before readiness
		r.m.StopLivenessAndStartup(after)
		r.add(after)
		r.wantKeys("u/a/readiness", "u/a/startup", "u/b/liveness")
	})
	for name, c := range map[string]manager.Compat{"": 0, ", kubelet": manager.KubeletV1_36} {
		bubble(t, "#234 concurrent RemovePod and AddPod leave running workers"+name, func(t *testing.T) {
			r := newRig(t, compat(c))
			h := r.always(probetest.NewHandler())
			pod := probedPod("u")
			r.store.SetPodStatus(pod, statusOf(running("ready", "c1"), running("live", "c2"), starting("start", "c3")))
			r.add(pod)
			for range 20 {
				r.m.RemovePod(pod)
				if err := r.m.AddPod(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			r.wantKeys(probedKeys("u")...)
			for kind, id := range map[probe.Kind]string{probe.Readiness: "c1", probe.Liveness: "c2", probe.Startup: "c3"} {
				r.wantCached(kind, id, results.Success)
			}
			before := h.Count()
			h.Then(failure)
			r.wait(2 * time.Second)
			if got := h.Count() - before; got < 2 {
				t.Errorf("%d attempts afterwards", got)
			}
			r.wantCached(probe.Readiness, "c1", results.Failure)
		})
	}
	bubble(t, "late result of a removed worker is not recorded for its successor", func(t *testing.T) {
		r := newRig(t)
		late := failure.After(500 * ms)
		late.Deaf = true
		r.always(probetest.NewHandler(late, success))
		pod := podOf("u", container("a", probe.Readiness))
		r.store.SetPodStatus(pod, statusOf(running("a", "c1")))
		r.add(pod)
		r.m.RemovePod(pod)
		r.wantCached(probe.Readiness, "c1", unset)
		r.add(pod)
		r.wantCached(probe.Readiness, "c1", results.Success)
		r.wait(600 * ms)
		r.wantCached(probe.Readiness, "c1", results.Success)
		if got := r.sent(); len(got) > 0 {
			t.Errorf("events: %q", got)
		}
	})
	bubble(t, "AddPod adds a pod that has ended", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", container("a", probe.Liveness))
		status := statusOf(running("a", "c1"))
		status.Phase = v1.PodFailed
		r.store.SetPodStatus(pod, status)
		r.add(pod)
		r.wantKeys()
		status.Phase = v1.PodRunning
		r.store.SetPodStatus(pod, status)
		r.add(pod)
		r.wantKeys("u/a/liveness")
	})
}

func TestClose(t *testing.T) {
	bubble(t, "Close cancels attempts and waits for them", func(t *testing.T) {
		r := newRig(t)
		h := r.always(probetest.NewHandler(probetest.Hang()))
		pod := podOf("u", container("a", probe.Kinds[:]...))
		pod.Spec.Containers[0].LivenessProbe.TimeoutSeconds = 1 << 20
		r.store.SetPodStatus(pod, statusOf(running("a", "c1")))
		r.add(pod)
		if h.Active() == 0 {
			t.Fatal("nothing is under way")
		}
		before := time.Now()
		if err := r.m.Close(); err != nil {
			t.Error(err)
		}
		if h.Active() != 0 || time.Since(before) != 0 {
			t.Errorf("%d attempts under way after %v", h.Active(), time.Since(before))
		}
		r.wantKeys()
	})
	bubble(t, "Close waits for an attempt of a removed pod", func(t *testing.T) {
		r := newRig(t)
		late := success.After(700 * ms)
		late.Deaf = true
		h := r.always(probetest.NewHandler(late))
		pod := podOf("u", container("a", probe.Liveness))
		r.store.SetPodStatus(pod, statusOf(running("a", "c1")))
		r.add(pod)
		r.m.RemovePod(pod)
		if err := r.m.Close(); err != nil {
			t.Error(err)
		}
		if h.Active() != 0 {
			t.Error("the attempt is still under way")
		}
	})
}
