package agent

import (
	"context"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// containerName is whose container ID something is.
type containerName struct{ namespace, pod, container string }

// decision names one decided result.
type decision struct {
	containerID string
	kind        probe.Kind
}

// changeLog writes a line for every change of a decided result.
type changeLog struct {
	agent *Agent
	names map[string]containerName // by container ID
	seen  map[decision]bool
}

// logChanges tells of changes until ctx ends.
func (a *Agent) logChanges(ctx context.Context) {
	l := changeLog{agent: a, seen: make(map[decision]bool)}
	for u := range a.manager.Subscribe(ctx) {
		a.hub.pod(types.UID(u.PodUID))
		l.tell(u)
	}
}

// tell writes the line of one change. What is decided before the first probe of a
// container is no change, and a line for debugging only.
func (l *changeLog) tell(u results.Update) {
	name, ok := l.names[u.ContainerID]
	if !ok {
		l.refresh()
		name = l.names[u.ContainerID]
	}
	key := decision{u.ContainerID, u.Kind}
	say := l.agent.log.Info
	switch {
	case !l.seen[key] && u.Result == initialResult(u.Kind):
		say = l.agent.log.Debug
	case u.Result == results.Failure:
		say = l.agent.log.Warn
	}
	l.seen[key] = true
	say("result changed", "namespace", name.namespace, "pod", name.pod, "container", name.container,
		"kind", u.Kind.String(), "result", u.Result.Word(), "containerID", u.ContainerID)
}

// refresh learns the containers that there are now, and forgets the others.
func (l *changeLog) refresh() {
	l.names = containerNames(l.agent.pods.Pods())
	maps.DeleteFunc(l.seen, func(d decision, _ bool) bool { return l.names[d.containerID] == containerName{} })
}

// initialResult is what a container is taken for before it is probed.
func initialResult(kind probe.Kind) results.Result {
	switch kind {
	case probe.Liveness:
		return results.Success
	case probe.Readiness:
		return results.Failure
	default:
		return results.Unknown
	}
}

func containerNames(pods []v1.Pod) map[string]containerName {
	names := make(map[string]containerName)
	for i := range pods {
		pod := &pods[i]
		for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for _, c := range list {
				if c.ContainerID != "" {
					names[c.ContainerID] = containerName{pod.Namespace, pod.Name, c.Name}
				}
			}
		}
	}
	return names
}

// followPods keeps what hangs on pods up to date until ctx ends.
func (a *Agent) followPods(ctx context.Context) {
	for c := range a.pods.Watch(ctx) {
		if c.Removed {
			a.metrics.PodGone(c.Pod.Namespace, c.Pod.Name)
		}
		a.hub.podChanged(c)
	}
}
