package cri_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestOverlay(t *testing.T) {
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(started.Add(d)) }
	yes := new(true)
	run := func(id string, restarts int32, since time.Duration) v1.ContainerStatus {
		return v1.ContainerStatus{Name: "app", ContainerID: id, RestartCount: restarts, Ready: true, Started: yes,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at(since)}}}
	}
	runNew := func(id string, restarts int32, last *v1.ContainerStateTerminated) v1.ContainerStatus {
		s := run(id, restarts, 0)
		s.Ready, s.Started, s.LastTerminationState.Terminated = false, new(false), last
		return s
	}
	end := func(id string) *v1.ContainerStateTerminated {
		return &v1.ContainerStateTerminated{ExitCode: 7, Reason: "Error", ContainerID: id, StartedAt: at(0), FinishedAt: at(time.Minute)}
	}
	ended := func(id string, restarts int32, last *v1.ContainerStateTerminated) v1.ContainerStatus {
		return v1.ContainerStatus{Name: "app", ContainerID: id, RestartCount: restarts, Started: new(false),
			State: v1.ContainerState{Terminated: end(id)}, LastTerminationState: v1.ContainerState{Terminated: last}}
	}
	waiting := func(id string, restarts int32) v1.ContainerStatus {
		return v1.ContainerStatus{Name: "app", ContainerID: id, RestartCount: restarts, Started: new(false),
			State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: v1.ContainerState{Terminated: end(id)}}
	}
	const id0, id1 = "containerd://c0", "containerd://c1"
	for _, c := range []struct {
		name   string
		list   []*runtime.Container
		status []v1.ContainerStatus
		want   []v1.ContainerStatus
	}{
		{"runtime knows nothing", nil, []v1.ContainerStatus{run(id0, 0, 0)}, []v1.ContainerStatus{run(id0, 0, 0)}},
		{"same container runs", list(container("c0", "u", 0, running)), []v1.ContainerStatus{run(id0, 0, 0)}, []v1.ContainerStatus{run(id0, 0, 0)}},
		{"it has exited", list(container("c0", "u", 0, exited)), []v1.ContainerStatus{run(id0, 0, 0)}, []v1.ContainerStatus{ended(id0, 0, nil)}},
		{"newer attempt runs", list(container("c0", "u", 0, exited), container("c1", "u", 1, running)), []v1.ContainerStatus{run(id0, 0, 0)}, []v1.ContainerStatus{runNew(id1, 1, end(id0))}},
		{"newer attempt has exited", list(container("c0", "u", 0, exited), container("c1", "u", 1, exited)), []v1.ContainerStatus{run(id0, 0, 0)}, []v1.ContainerStatus{ended(id1, 1, end(id0))}},
		{"newer attempt runs, the older one is removed", list(container("c1", "u", 1, running)), []v1.ContainerStatus{run(id0, 0, 0)}, []v1.ContainerStatus{runNew(id1, 1, nil)}},
		{"newer attempt is created only", list(container("c0", "u", 0, exited), container("c1", "u", 1, created)), []v1.ContainerStatus{run(id0, 0, 0)}, []v1.ContainerStatus{ended(id0, 0, nil)}},
		{"status is newer", list(container("c0", "u", 0, exited)), []v1.ContainerStatus{run(id1, 1, 0)}, []v1.ContainerStatus{run(id1, 1, 0)}},
		{"status knows of the exit first", list(container("c0", "u", 0, running)), []v1.ContainerStatus{ended(id0, 0, nil)}, []v1.ContainerStatus{ended(id0, 0, nil)}},
		{"it waits to be restarted", list(container("c0", "u", 0, exited)), []v1.ContainerStatus{waiting(id0, 0)}, []v1.ContainerStatus{waiting(id0, 0)}},
		{"it has been restarted after that", list(container("c0", "u", 0, exited), container("c1", "u", 1, running)), []v1.ContainerStatus{waiting(id0, 0)}, []v1.ContainerStatus{runNew(id1, 1, end(id0))}},
		{"same attempt, started later", list(container("c1", "u", 0, running)), []v1.ContainerStatus{run(id0, 0, -time.Hour)}, []v1.ContainerStatus{runNew(id1, 0, nil)}},
		{"same attempt, started before", list(container("c1", "u", 0, running)), []v1.ContainerStatus{run(id0, 0, time.Hour)}, []v1.ContainerStatus{run(id0, 0, time.Hour)}},
		{"first start, the status waits", list(container("c0", "u", 0, running)), []v1.ContainerStatus{{Name: "app", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}}},
			[]v1.ContainerStatus{runNew(id0, 0, nil)}},
		{"first start, no status", list(container("c0", "u", 0, running)), nil, []v1.ContainerStatus{runNew(id0, 0, nil)}},
		{"container of another pod", list(container("c0", "other", 3, running)), []v1.ContainerStatus{run(id0, 0, 0)}, []v1.ContainerStatus{run(id0, 0, 0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.set(c.list...)
			f.serve(t)
			client, _ := f.client(t)
			f.logged("lists its containers")
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
			status := v1.PodStatus{ContainerStatuses: c.status}
			client.Overlay(pod, &status)
			if diff := cmp.Diff(c.want, status.ContainerStatuses); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOverlayInitContainer(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set(container("c0", "u", 2, running))
	f.serve(t)
	c, changed := f.client(t)
	<-changed
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "app"}}}}
	var status v1.PodStatus
	c.Overlay(pod, &status)
	if len(status.InitContainerStatuses) != 1 || status.InitContainerStatuses[0].RestartCount != 2 || len(status.ContainerStatuses) != 0 {
		t.Errorf("got %+v", status)
	}
}

func list(l ...*runtime.Container) []*runtime.Container { return l }
