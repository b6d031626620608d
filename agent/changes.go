package agent

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// changeLog writes a line for every change of a decided result.
type changeLog struct {
	mu   sync.Mutex
	pods map[types.UID]*podNotes
}

// podNotes is what is remembered of a pod.
type podNotes struct {
	namespace, name string
	told            map[decision]string // container ID of the last line about each result
}

// decision names one decided result of a pod.
type decision struct {
	container string
	kind      probe.Kind
}

// know notes the pods whose changes may come.
func (l *changeLog) know(pods ...*v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pod := range pods {
		if l.pods[pod.UID] == nil {
			l.pods[pod.UID] = &podNotes{namespace: pod.Namespace, name: pod.Name, told: make(map[decision]string)}
		}
	}
}

// forget drops a pod that has ended.
func (l *changeLog) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pods, uid)
}

// note returns whose result u is, and whether it is the first of its container.
func (l *changeLog) note(u results.Update, container string) (namespace, pod string, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	notes := l.pods[types.UID(u.PodUID)]
	if notes == nil {
		return "", "", false
	}
	d := decision{container, u.Kind}
	first = notes.told[d] != u.ContainerID
	notes.told[d] = u.ContainerID
	return notes.namespace, notes.name, first
}

// logChanges tells of changes until ctx ends. What is decided before the first probe of
// a container is no change, and a line for debugging only.
func (a *Agent) logChanges(ctx context.Context) {
	for u := range a.manager.Subscribe(ctx) {
		uid := types.UID(u.PodUID)
		a.hub.pod(uid)
		status, _ := a.pods.PodStatus(uid)
		container := nameOf(&status, u.ContainerID)
		namespace, pod, first := a.noteChange(u, container)
		say := a.log.Info
		switch {
		case first && u.Result == worker.InitialResult(u.Kind):
			say = a.log.Debug
		case u.Result == results.Failure:
			say = a.log.Warn
		}
		say("result changed", "namespace", namespace, "pod", pod, "container", container,
			"kind", u.Kind.String(), "result", u.Result.Word(), "containerID", u.ContainerID)
	}
}

// noteChange notes u. A pod that takes the place of one with the same UID may have been
// forgotten with that.
func (a *Agent) noteChange(u results.Update, container string) (namespace, pod string, first bool) {
	if namespace, pod, first = a.changes.note(u, container); pod != "" {
		return namespace, pod, first
	}
	for _, p := range a.pods.Pods() {
		if string(p.UID) == u.PodUID {
			a.changes.know(&p)
		}
	}
	return a.changes.note(u, container)
}

// nameOf returns the name of the container that has an ID.
func nameOf(status *v1.PodStatus, id string) string {
	for _, list := range [...][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			if list[i].ContainerID == id {
				return list[i].Name
			}
		}
	}
	return ""
}

// followPods keeps what hangs on pods up to date until ctx ends.
func (a *Agent) followPods(ctx context.Context) {
	for c := range a.pods.Watch(ctx) {
		if c.Removed {
			a.metrics.PodGone(c.Pod.Namespace, c.Pod.Name)
			a.changes.forget(c.Pod.UID)
		}
		a.hub.podChanged(c)
	}
}
