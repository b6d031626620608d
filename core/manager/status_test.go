package manager_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// resolve returns the status of pod's only container after UpdatePodStatus.
func (r *rig) resolve(pod *v1.Pod, c v1.ContainerStatus) (started, ready bool) {
	r.t.Helper()
	status := statusOf(c)
	r.m.UpdatePodStatus(pod, &status)
	got := status.ContainerStatuses[0]
	return *got.Started, got.Ready
}

// fresh returns the status of a container without Started.
func fresh(c v1.ContainerStatus) v1.ContainerStatus {
	c.Started = nil
	return c
}

func TestUpdatePodStatus(t *testing.T) {
	set := func(kind probe.Kind, r results.Result) func(*manager.Manager) {
		return func(m *manager.Manager) { m.Results(kind).Set("c1", r, &results.Subject{PodUID: "u"}, results.Cause{}) }
	}
	up := fresh(running("web", "c1"))
	for _, tc := range []struct {
		name           string
		kinds          []probe.Kind
		set            func(*manager.Manager)
		status         v1.ContainerStatus
		started, ready bool
	}{
		{"#11 running, liveness only", []probe.Kind{probe.Liveness}, nil, up, true, true},
		{"#12 running, readiness Success", []probe.Kind{probe.Readiness}, set(probe.Readiness, results.Success), up, true, true},
		{"#13 running, readiness not decided", []probe.Kind{probe.Readiness}, nil, up, true, false},
		{"#14 running, readiness Failure", []probe.Kind{probe.Readiness}, set(probe.Readiness, results.Failure), up, true, false},
		{"#15 running, startup not decided", []probe.Kind{probe.Startup}, nil, up, false, false},
		{"#15 running, startup Unknown", []probe.Kind{probe.Startup}, set(probe.Startup, results.Unknown), up, false, false},
		{"#15 running, startup Failure", []probe.Kind{probe.Startup}, set(probe.Startup, results.Failure), up, false, false},
		{"#16 running, startup Success, no readiness", []probe.Kind{probe.Startup}, set(probe.Startup, results.Success), up, true, true},
		{"#17 terminated, readiness Success", []probe.Kind{probe.Readiness}, set(probe.Readiness, results.Success), terminated("web", "c1", 0), false, false},
		{"waiting, without probes", nil, nil, waiting("web", "c1"), false, false},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			r := newRig(t)
			pod := podOf("u", container("web", tc.kinds...))
			r.add(pod) // no status: the worker makes no attempt
			if tc.set != nil {
				tc.set(r.m)
			}
			if started, ready := r.resolve(pod, tc.status); started != tc.started || ready != tc.ready {
				t.Errorf("started %v, ready %v; want %v, %v", started, ready, tc.started, tc.ready)
			}
		})
	}
	bubble(t, "Ready of a container that has not started", func(t *testing.T) {
		for switches, want := range map[manager.Compat]bool{0: false, manager.KubeletV1_36: true} { // the kubelet leaves Ready unchanged
			r := newRig(t, compat(switches))
			pod := podOf("u", container("web", probe.Startup))
			r.add(pod)
			in := fresh(running("web", "c1"))
			in.Ready = true
			if started, ready := r.resolve(pod, in); started || ready != want {
				t.Errorf("compat %b: started %v, ready %v", switches, started, ready)
			}
		}
	})
	bubble(t, "containers of a pod are independent", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", container("a", probe.Readiness), container("b", probe.Startup), container("c"))
		r.add(pod)
		status := statusOf(fresh(running("a", "1")), fresh(running("b", "2")), fresh(running("c", "3")), fresh(running("unknown", "4")))
		r.m.UpdatePodStatus(pod, &status)
		var got strings.Builder
		for _, c := range status.ContainerStatuses {
			got.WriteString(fmt.Sprintln(c.Name, *c.Started, c.Ready))
		}
		if want := "a true false\nb false false\nc true true\nunknown true true\n"; got.String() != want {
			t.Errorf("got\n%swant\n%s", got.String(), want)
		}
	})
}

func TestUpdatePodStatusInit(t *testing.T) {
	up, done := fresh(running("init", "c1")), terminated("init", "c1", 0)
	for _, tc := range []struct {
		name           string
		sidecar        bool
		startup        results.Result
		status         v1.ContainerStatus
		started, ready bool
	}{
		{"#18 plain, running, startup not decided", false, unset, up, false, false},
		{"#19 plain, running, startup Success", false, results.Success, up, true, false},
		{"#20 plain, terminated with 0", false, unset, done, false, true},
		{"#20 plain, terminated with 1", false, unset, terminated("init", "c1", 1), false, false},
		{"#21 restartable, running, startup not decided", true, unset, up, false, false},
		{"#22 restartable, running, startup Success", true, results.Success, up, true, true},
		{"#23 restartable, terminated with 0", true, unset, done, false, false},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			r := newRig(t)
			pod := podOf("u", container("web"))
			pod.Spec.InitContainers = []v1.Container{container("init", probe.Startup)}
			if tc.sidecar {
				pod.Spec.InitContainers[0] = sidecar("init", probe.Startup)
			}
			r.add(pod)
			if tc.startup != unset {
				r.m.Results(probe.Startup).Set("c1", tc.startup, &results.Subject{PodUID: "u"}, results.Cause{})
			} else if !tc.sidecar {
				// A plain init container has no worker, but may have a cached result.
				r.m.Results(probe.Startup).Set("c1", results.Unknown, &results.Subject{PodUID: "u"}, results.Cause{})
			}
			status := v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{tc.status}}
			r.m.UpdatePodStatus(pod, &status)
			got := status.InitContainerStatuses[0]
			if *got.Started != tc.started || got.Ready != tc.ready {
				t.Errorf("started %v, ready %v; want %v, %v", *got.Started, got.Ready, tc.started, tc.ready)
			}
		})
	}
	for name, tc := range map[string]struct {
		compat manager.Compat
		want   map[string]bool // values of Ready
	}{
		"by name":           {0, map[string]bool{"other": false, "init": false, "sidecar": true}},
		"by index, kubelet": {manager.KubeletV1_36, map[string]bool{"other": true, "init": true, "sidecar": false}},
	} {
		bubble(t, "init containers in another order, "+name, func(t *testing.T) {
			r := newRig(t, compat(tc.compat))
			pod := podOf("u", container("web"))
			pod.Spec.InitContainers = []v1.Container{container("init"), sidecar("sidecar")}
			other, init := fresh(running("other", "c0")), fresh(running("init", "c1"))
			other.Ready, init.Ready = true, true
			status := v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{other, fresh(running("sidecar", "c2"))}}
			status.InitContainerStatuses = slices.Insert(status.InitContainerStatuses, 1, init)
			r.m.UpdatePodStatus(pod, &status)
			for _, c := range status.InitContainerStatuses {
				if !*c.Started || c.Ready != tc.want[c.Name] {
					t.Errorf("%s: started %v, ready %v", c.Name, *c.Started, c.Ready)
				}
			}
		})
	}
	bubble(t, "readiness of a sidecar", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", container("web"))
		pod.Spec.InitContainers = []v1.Container{sidecar("init", probe.Readiness)}
		r.add(pod)
		for _, want := range []results.Result{results.Failure, results.Success} {
			r.m.Results(probe.Readiness).Set("c1", want, &results.Subject{PodUID: "u"}, results.Cause{})
			status := v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{fresh(running("init", "c1"))}}
			r.m.UpdatePodStatus(pod, &status)
			if got := status.InitContainerStatuses[0].Ready; got != (want == results.Success) {
				t.Errorf("%v: ready %v", want, got)
			}
		}
	})
}

func TestReadinessEndToEnd(t *testing.T) {
	bubble(t, "#24 decided result appears in the published status", func(t *testing.T) {
		r := newRig(t)
		h := r.always(probetest.NewHandler())
		pod := podOf("u", container("web", probe.Readiness))
		ctx, cancel := context.WithCancel(t.Context())
		var consumer sync.WaitGroup
		defer consumer.Wait()
		defer cancel()
		updates := r.m.Subscribe(ctx)
		consumer.Go(func() {
			for u := range updates {
				if u.Kind == probe.Readiness {
					r.store.SetContainerReadiness(pod.UID, u.ContainerID, u.Result == results.Success)
				}
			}
		})
		ready := func() bool {
			status, _ := r.store.PodStatus(pod.UID)
			for _, c := range status.Conditions {
				if c.Type == v1.PodReady && (c.Status == v1.ConditionTrue) != status.ContainerStatuses[0].Ready {
					t.Errorf("the pod's condition is %v, its container ready %v", c.Status, status.ContainerStatuses[0].Ready)
				}
			}
			return status.ContainerStatuses[0].Ready
		}
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		if !ready() {
			t.Error("not ready after a success")
		}
		h.Then(failure)
		r.wait(time.Second)
		if ready() {
			t.Error("ready after a failure")
		}
	})
	bubble(t, "#191 container is ready at once after its startup probe succeeds", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", container("web", probe.Startup, probe.Readiness))
		pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 30
		r.store.SetPodStatus(pod, statusOf(starting("web", "c1")))
		r.add(pod)
		r.wantCached(probe.Startup, "c1", results.Success)
		r.store.SetContainerStartup(pod.UID, "c1", true)
		status, _ := r.store.PodStatus(pod.UID)
		r.m.UpdatePodStatus(pod, status.DeepCopy())
		synctest.Wait()
		r.wantCached(probe.Readiness, "c1", results.Success)
	})
	bubble(t, "#225 UpdatePodStatus never blocks, and triggers a probe that has not run", func(t *testing.T) {
		r := newRig(t)
		h := r.always(probetest.NewHandler(probetest.Hang()))
		pod := podOf("u", container("web", probe.Readiness))
		pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 30
		r.add(pod) // the first tick finds no container
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		before := time.Now()
		for range 100 {
			r.resolve(pod, running("web", "c1"))
		}
		if time.Since(before) != 0 {
			t.Errorf("waited %v", time.Since(before))
		}
		synctest.Wait()
		if got := h.Count(); got != 1 {
			t.Errorf("%d attempts, want 1", got)
		}
	})
	bubble(t, "UpdatePodStatus does not trigger a probe that has run", func(t *testing.T) {
		if got := attemptsWhileUnready(t, probe.CompatHerd); got != 1 {
			t.Errorf("%d attempts, want 1", got)
		}
	})
	bubble(t, "UpdatePodStatus triggers the probe of a container that is not ready, kubelet", func(t *testing.T) {
		if got := attemptsWhileUnready(t, manager.KubeletV1_36); got != 6 {
			t.Errorf("%d attempts, want 6", got)
		}
	})
}

// attemptsWhileUnready returns the number of attempts for a container that is not ready, with five calls of
// UpdatePodStatus within a period.
func attemptsWhileUnready(t *testing.T, c manager.Compat) int {
	r := newRig(t, compat(c))
	h := r.always(probetest.NewHandler(failure))
	pod := podOf("u", container("web", probe.Readiness))
	pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 30
	r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
	r.add(pod)
	for range 5 {
		r.resolve(pod, running("web", "c1"))
		r.wait(100 * ms)
	}
	return h.Count()
}

// TestReadyOverRestart is the truth table of the readiness of a container without a cached Success.
func TestReadyOverRestart(t *testing.T) {
	for _, before := range []bool{false, true} { // the container was started well before the agent
		for _, cached := range []bool{false, true} { // the cache has a Failure
			for _, podReady := range []bool{false, true} {
				for _, probed := range []bool{false, true} {
					want := !probed
					if before {
						want = want || !cached
						if probed && !podReady {
							want = false
						}
					}
					name := fmt.Sprintf("#229 started before %v, cached %v, pod ready %v, probed %v", before, cached, podReady, probed)
					bubble(t, name, func(t *testing.T) {
						if got := readyOverRestart(t, 0, before, cached, podReady, probed); got != want {
							t.Errorf("ready %v, want %v", got, want)
						}
					})
					bubble(t, name+", kubelet", func(t *testing.T) {
						if got := readyOverRestart(t, manager.KubeletV1_36, before, cached, podReady, probed); got != want {
							t.Errorf("ready %v, want %v", got, want)
						}
					})
					bubble(t, name+", status on restart", func(t *testing.T) {
						if got := readyOverRestart(t, probe.CompatStatusOnRestart, before, cached, podReady, probed); got != !probed {
							t.Errorf("ready %v, want %v", got, !probed)
						}
					})
				}
			}
		}
	}
}

func readyOverRestart(t *testing.T, c manager.Compat, before, cached, podReady, probed bool) bool {
	r := newYoungRig(t, compat(c))
	pod := podOf("u", container("web"))
	if probed {
		pod.Spec.Containers[0] = container("web", probe.Readiness)
	}
	status := running("web", "c1")
	if before {
		status.State.Running.StartedAt = metav1.NewTime(r.start.Add(-11 * time.Second))
	}
	pod.Status = statusOf(status)
	if podReady {
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	r.add(pod)
	if cached {
		r.m.Results(probe.Readiness).Set("c1", results.Failure, &results.Subject{PodUID: "u"}, results.Cause{})
	}
	_, ready := r.resolve(pod, status)
	return ready
}

func TestReplacedContainer(t *testing.T) {
	replaced := func(t *testing.T, c manager.Compat) (started, ready bool) {
		r := newYoungRig(t, compat(c))
		pod := podOf("u", container("web", probe.Startup, probe.Readiness))
		old := running("web", "c0")
		old.Ready = true
		pod.Status = statusOf(old)
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		r.add(pod)
		now := running("web", "c1") // Started was carried over from c0
		now.State.Running.StartedAt = metav1.NewTime(r.start.Add(-time.Minute))
		return r.resolve(pod, now)
	}
	bubble(t, "#231 replaced container does not inherit", func(t *testing.T) {
		if started, ready := replaced(t, 0); started || ready {
			t.Errorf("started %v, ready %v", started, ready)
		}
	})
	bubble(t, "#231 replaced container inherits, kubelet", func(t *testing.T) {
		if started, ready := replaced(t, manager.KubeletV1_36); !started || !ready {
			t.Errorf("started %v, ready %v", started, ready)
		}
	})
	bubble(t, "same container keeps its status over a restart of the agent", func(t *testing.T) {
		r := newYoungRig(t)
		h := r.always(probetest.NewHandler(failure))
		pod := podOf("u", container("web", probe.Startup, probe.Readiness))
		status := running("web", "c1")
		status.Ready, status.State.Running.StartedAt = true, metav1.NewTime(r.start.Add(-time.Hour))
		pod.Status = statusOf(status)
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		r.store.SetPodStatus(pod, pod.Status)
		pod.Spec.Containers[0].ReadinessProbe.FailureThreshold = 2
		r.add(pod)
		if started, ready := r.resolve(pod, status); !started || !ready {
			t.Errorf("before the first probe: started %v, ready %v", started, ready)
		}
		r.wait(10 * time.Second) // two failures decide
		r.wantCached(probe.Readiness, "c1", results.Failure)
		if started, ready := r.resolve(pod, status); !started || ready {
			t.Errorf("after it failed: started %v, ready %v", started, ready)
		}
		for _, c := range h.Calls() {
			if c.Request.Kind == probe.Startup {
				t.Error("the startup probe was run again")
			}
		}
	})
}
