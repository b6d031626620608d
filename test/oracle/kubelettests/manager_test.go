package kubelettests

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// podOf returns a pod with containers. Commands of its probes are the pod's UID, the container and the kind.
func podOf(id types.UID, containers ...v1.Container) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(id), UID: id}, Spec: v1.PodSpec{Containers: containers}}
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			name(id, &list[i])
		}
	}
	return pod
}

func name(id types.UID, c *v1.Container) {
	for kind, p := range map[string]*v1.Probe{liveness: c.LivenessProbe, readiness: c.ReadinessProbe, startup: c.StartupProbe} {
		if p != nil {
			p.Exec.Command = []string{string(id), c.Name, kind}
		}
	}
}

func containerWith(name string, of ...string) v1.Container {
	c := v1.Container{Name: name}
	for _, kind := range of {
		p := execProbe()
		p.FailureThreshold = 1000 // keeps startup and liveness probes from holding
		setProbe(&c, kind, p)
	}
	return c
}

// workers returns the probes that make attempts before or after their containers have started.
func (r *rig) workers(pods ...*v1.Pod) []string {
	r.answer("", exit(1))
	var all []string
	for _, started := range []bool{false, true} {
		for _, pod := range pods {
			r.setStatus(pod.UID, runningAll(pod, started))
		}
		all = append(all, r.commandsIn(2*time.Second)...)
	}
	slices.Sort(all)
	return all
}

func runningAll(pod *v1.Pod, started bool) *v1.PodStatus {
	of := func(containers []v1.Container) (list []v1.ContainerStatus) {
		for _, c := range containers {
			s := running(readiness, fmt.Sprintf("test://%s-%s", pod.UID, c.Name))
			s.Name, s.Started = c.Name, new(started)
			list = append(list, s)
		}
		return list
	}
	s := statusOf(of(pod.Spec.Containers)...)
	s.InitContainerStatuses = of(pod.Spec.InitContainers)
	return s
}

func (r *rig) wantWorkers(pods []*v1.Pod, want ...string) {
	r.t.Helper()
	slices.Sort(want)
	if got := r.workers(pods...); !slices.Equal(got, want) {
		r.t.Errorf("workers %q, want %q", got, want)
	}
}

func TestAddAndRemove(t *testing.T) {
	both(t, "#1 #2 #3 #4 #5 #6 pods without and with probes", func(t *testing.T, r *rig) {
		r.settle()
		plain := podOf("plain", v1.Container{Name: "a"}, v1.Container{Name: "b"}, v1.Container{Name: "c"})
		probed := podOf("probed", v1.Container{Name: "a"}, containerWith("r", readiness), v1.Container{Name: "b"},
			containerWith("l", liveness), v1.Container{Name: "c"}, containerWith("s", startup))
		pods := []*v1.Pod{plain, probed}
		all := []string{"probed r readiness", "probed l liveness", "probed s startup"}
		r.wantWorkers(pods)
		r.add(plain)
		r.wantWorkers(pods)
		r.add(probed)
		r.wantWorkers(pods, all...)
		r.RemovePod(plain)
		r.wantWorkers(pods, all...)
		r.RemovePod(probed)
		r.wait(0)
		r.wantWorkers(pods)
		r.RemovePod(probed)
		r.wantWorkers(pods)
	})
	both(t, "#259 a container after one whose probe runs", func(t *testing.T, r *rig) {
		r.settle()
		pod := podOf("pod", containerWith("a", readiness), containerWith("b", liveness))
		r.add(pod)
		r.wantWorkers([]*v1.Pod{pod}, "pod a readiness", "pod b liveness")
		r.StopLivenessAndStartup(pod)
		r.wait(0)
		r.wantWorkers([]*v1.Pod{pod}, "pod a readiness")
		r.add(pod)
		want := []string{"pod a readiness", "pod b liveness"}
		if before("1.37") {
			want = want[:1]
		}
		r.wantWorkers([]*v1.Pod{pod}, want...)
	})
	for _, c := range []struct {
		name   string
		policy *v1.ContainerRestartPolicy
		want   []string
	}{
		{"#7 a plain init container has no workers", nil, nil},
		{"#8 a sidecar has workers", new(v1.ContainerRestartPolicyAlways), []string{"pod i liveness", "pod i readiness", "pod i startup"}},
	} {
		both(t, c.name, func(t *testing.T, r *rig) {
			r.settle()
			pod := podOf("pod", v1.Container{Name: "main"})
			side := containerWith("i", liveness, readiness, startup)
			side.RestartPolicy = c.policy
			name("pod", &side)
			pod.Spec.InitContainers = []v1.Container{{Name: "init"}, side}
			r.add(pod)
			r.wantWorkers([]*v1.Pod{pod}, c.want...)
			for range 2 {
				r.RemovePod(pod)
				r.wait(0)
				r.wantWorkers([]*v1.Pod{pod})
			}
		})
	}
}

func TestCleanupPods(t *testing.T) {
	threeProbes := func(id types.UID) *v1.Pod {
		return podOf(id, containerWith("a", readiness), containerWith("b", liveness), containerWith("c", startup))
	}
	both(t, "#9 the pods that are not desired", func(t *testing.T, r *rig) {
		r.settle()
		gone, kept := threeProbes("gone"), threeProbes("kept")
		r.add(gone)
		r.add(kept)
		r.CleanupPods(map[types.UID]sets.Empty{"kept": {}})
		r.wait(0)
		r.wantWorkers([]*v1.Pod{gone, kept}, "kept a readiness", "kept b liveness", "kept c startup")
	})
	both(t, "#10 ten times with 100 pods", func(t *testing.T, r *rig) {
		for i := range 100 {
			r.AddPod(t.Context(), threeProbes(types.UID(fmt.Sprint(i))))
		}
		for range 10 {
			r.CleanupPods(map[types.UID]sets.Empty{})
		}
	})
}

// statusCase has a container, the decided result of its probe, and the expected status after
// UpdatePodStatus.
type statusCase struct {
	name           string
	kind           string // kind of the probe
	decided        string // "", "Success" or "Failure"
	exited         bool
	started, ready bool
}

func TestUpdatePodStatus(t *testing.T) {
	for _, c := range []statusCase{
		{"#11 a liveness probe", liveness, "", false, true, true},
		{"#12 readiness has succeeded", readiness, "Success", false, true, true},
		{"#13 readiness is undecided", readiness, "", false, true, false},
		{"#14 readiness has failed", readiness, "Failure", false, true, false},
		{"#15 startup is undecided", startup, "", false, false, false},
		{"#16 startup has succeeded", startup, "Success", false, true, true},
		{"#17 the container has exited", readiness, "Success", true, false, false},
	} {
		both(t, c.name, func(t *testing.T, r *rig) {
			pod := podWith(c.kind)
			got := r.statusAfter(c, pod, pod, false)
			wantStatus(t, got.ContainerStatuses[0], c.started, c.ready)
		})
	}
	for _, form := range []struct {
		cases []statusCase
		shape func(*v1.Pod, *v1.Probe)
	}{
		{[]statusCase{
			{"#18 a plain init container, startup is undecided", startup, "", false, false, false},
			{"#19 a plain init container, startup has succeeded", startup, "Success", false, true, false},
			{"#20 a plain init container has exited", startup, "", true, false, true},
		}, func(pod *v1.Pod, p *v1.Probe) { sidecar(pod, p); pod.Spec.InitContainers[0].RestartPolicy = nil }},
		{[]statusCase{
			{"#21 a sidecar, startup is undecided", startup, "", false, false, false},
			{"#22 a sidecar, startup has succeeded", startup, "Success", false, true, true},
			{"#23 a sidecar has exited", startup, "", true, false, false},
		}, sidecar},
	} {
		for _, c := range form.cases {
			both(t, c.name, func(t *testing.T, r *rig) {
				// Only a sidecar has a worker. UpdatePodStatus may get a different pod.
				got := r.statusAfter(c, podWith(c.kind, sidecar), podWith(c.kind, form.shape), true)
				wantStatus(t, got.InitContainerStatuses[0], c.started, c.ready)
			})
		}
	}
}

// statusAfter adds the pod added and waits for a decided result. It returns the status after UpdatePodStatus
// of the pod updated.
func (r *rig) statusAfter(c statusCase, added, updated *v1.Pod, init bool) *v1.PodStatus {
	r.settle()
	status := func() *v1.PodStatus {
		s := statusOf(running(c.kind, first))
		s.ContainerStatuses[0].Started = nil
		if c.kind != startup {
			s.ContainerStatuses[0].Started = new(true)
		}
		if init {
			s.InitContainerStatuses, s.ContainerStatuses = s.ContainerStatuses, nil
		}
		return s
	}
	if c.decided != "" {
		r.setStatus(added.UID, status())
	}
	if c.decided == "Failure" {
		r.answer("", exit(1))
	}
	r.add(added)
	r.wantCached(c.kind, first, c.decided)
	s := status()
	if c.exited {
		gone := []v1.ContainerStatus{stopped(c.kind, first, zero)}
		if init {
			s.InitContainerStatuses = gone
		} else {
			s.ContainerStatuses = gone
		}
	}
	r.UpdatePodStatus(r.t.Context(), updated, s)
	return s
}

func wantStatus(t *testing.T, c v1.ContainerStatus, started, ready bool) {
	t.Helper()
	if c.Started == nil || *c.Started != started || c.Ready != ready {
		t.Errorf("started %v, ready %v; want %v, %v", c.Started != nil && *c.Started, c.Ready, started, ready)
	}
}

func TestUpdateReadiness(t *testing.T) {
	both(t, "#24 updates of readiness", func(t *testing.T, r *rig) {
		r.settle()
		r.setStatus(uid, isRunning(readiness))
		r.add(podWith(readiness))
		r.wantUpdate(readiness, first, "Success")
		r.answer("", exit(1))
		r.wait(2 * time.Second)
		r.wantUpdate(readiness, first, "Failure")
	})
}
