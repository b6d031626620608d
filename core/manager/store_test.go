package manager_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
)

// storeRig is a store that counts the calls of Changed.
type storeRig struct {
	*manager.StatusStore
	t       *testing.T
	changes int
	last    v1.PodStatus
}

func newStoreRig(t *testing.T) *storeRig {
	r := &storeRig{StatusStore: new(manager.StatusStore), t: t}
	r.Changed = func(pod *v1.Pod, status v1.PodStatus) {
		r.changes++
		r.last = status
		if _, ok := r.PodStatus(pod.UID); !ok { // deadlocks if a lock is held
			t.Error("the store does not know the pod that it tells of")
		}
	}
	return r
}

// two sets a pod with the containers "a" (ID c1) and "b" (ID c2), which are not ready.
func (r *storeRig) two() *v1.Pod {
	pod := podOf("u", container("a"), container("b"))
	r.SetPodStatus(pod, statusOf(fresh(running("a", "c1")), fresh(running("b", "c2"))))
	r.changes = 0
	return pod
}

func (r *storeRig) want(changes int) v1.PodStatus {
	r.t.Helper()
	if r.changes != changes {
		r.t.Errorf("%d changes, want %d", r.changes, changes)
	}
	r.changes = 0
	status, _ := r.PodStatus("u")
	return status
}

func condition(status v1.PodStatus, t v1.PodConditionType) v1.ConditionStatus {
	for _, c := range status.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return ""
}

func TestSetContainerReadiness(t *testing.T) {
	t.Run("#171 before there is a status", func(t *testing.T) {
		r := newStoreRig(t)
		r.SetContainerReadiness("u", "c1", true)
		r.want(0)
		if _, ok := r.PodStatus("u"); ok {
			t.Error("the pod is known")
		}
	})
	t.Run("#171 unchanged", func(t *testing.T) {
		r := newStoreRig(t)
		r.two()
		r.SetContainerReadiness("u", "c1", false)
		r.want(0)
	})
	t.Run("#171 one of two, then both", func(t *testing.T) {
		r := newStoreRig(t)
		r.two()
		r.SetContainerReadiness("u", "c1", true)
		status := r.want(1)
		if !status.ContainerStatuses[0].Ready || status.ContainerStatuses[1].Ready {
			t.Errorf("ready: %+v", status.ContainerStatuses)
		}
		if got := condition(status, v1.PodReady); got != v1.ConditionFalse {
			t.Errorf("PodReady is %q", got)
		}
		r.SetContainerReadiness("u", "c2", true)
		status = r.want(1)
		for _, c := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
			if got := condition(status, c); got != v1.ConditionTrue {
				t.Errorf("%s is %q", c, got)
			}
		}
	})
	t.Run("#171 unknown container", func(t *testing.T) {
		r := newStoreRig(t)
		r.two()
		r.SetContainerReadiness("u", "c3", true)
		r.want(0)
	})
	t.Run("sidecar counts", func(t *testing.T) {
		r := newStoreRig(t)
		pod := podOf("u", container("a"))
		pod.Spec.InitContainers = []v1.Container{sidecar("s")}
		status := statusOf(running("a", "c1"))
		status.ContainerStatuses[0].Ready = true
		status.InitContainerStatuses = []v1.ContainerStatus{running("s", "c2")}
		r.SetPodStatus(pod, status)
		r.SetContainerReadiness("u", "c2", true)
		if got := condition(r.want(2), v1.PodReady); got != v1.ConditionTrue {
			t.Errorf("PodReady is %q", got)
		}
	})
	bubble(t, "transition time changes only with the status of the condition", func(t *testing.T) {
		r := newStoreRig(t)
		r.two()
		start := time.Now()
		at := func() time.Time {
			status, _ := r.PodStatus("u")
			for _, c := range status.Conditions {
				if c.Type == v1.PodReady {
					return c.LastTransitionTime.Time
				}
			}
			return time.Time{}
		}
		r.SetContainerReadiness("u", "c1", true)
		time.Sleep(time.Minute)
		r.SetContainerReadiness("u", "c1", false)
		if got := at(); !got.Equal(start) {
			t.Errorf("false to false: %v, want %v", got, start)
		}
		r.SetContainerReadiness("u", "c1", true)
		r.SetContainerReadiness("u", "c2", true)
		if got := at(); !got.Equal(start.Add(time.Minute)) {
			t.Errorf("false to true: %v, want %v", got, start.Add(time.Minute))
		}
	})
}

func TestSetContainerStartup(t *testing.T) {
	t.Run("#172 before there is a status", func(t *testing.T) {
		r := newStoreRig(t)
		r.SetContainerStartup("u", "c1", true)
		r.want(0)
	})
	t.Run("#172 from unset to false, and to true", func(t *testing.T) {
		r := newStoreRig(t)
		r.two()
		r.SetContainerStartup("u", "c1", false)
		if got := r.want(1).ContainerStatuses[0].Started; got == nil || *got {
			t.Errorf("started: %v", got)
		}
		r.SetContainerStartup("u", "c1", false)
		r.want(0)
		r.SetContainerStartup("u", "c1", true)
		if got := r.want(1).ContainerStatuses[0].Started; got == nil || !*got {
			t.Errorf("started: %v", got)
		}
	})
	t.Run("#172 unknown container", func(t *testing.T) {
		r := newStoreRig(t)
		r.two()
		r.SetContainerStartup("u", "c3", true)
		r.want(0)
	})
}

func TestStatusStore(t *testing.T) {
	t.Run("later write does not change a status that was read", func(t *testing.T) {
		r := newStoreRig(t)
		r.two()
		before, _ := r.PodStatus("u")
		r.SetContainerReadiness("u", "c1", true)
		r.SetContainerStartup("u", "c1", true)
		if c := before.ContainerStatuses[0]; c.Ready || c.Started != nil {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("SetPodStatus copies the status", func(t *testing.T) {
		r := newStoreRig(t)
		status := statusOf(running("a", "c1"))
		r.SetPodStatus(podOf("u", container("a")), status)
		status.ContainerStatuses[0].ContainerID = "changed"
		if got, _ := r.PodStatus("u"); got.ContainerStatuses[0].ContainerID != "c1" {
			t.Errorf("got %+v", got.ContainerStatuses[0])
		}
	})
	t.Run("removed pod has no status", func(t *testing.T) {
		r := newStoreRig(t)
		r.two()
		r.RemovePod("u")
		if _, ok := r.PodStatus("u"); ok {
			t.Error("the pod is known")
		}
		r.SetContainerReadiness("u", "c1", true)
		r.want(0)
	})
}
