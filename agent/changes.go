package agent

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/results"
)

// logChanges logs every change of a decided result until ctx ends, and pushes it to the
// streams.
func (a *Agent) logChanges(ctx context.Context) {
	for u := range a.manager.Subscribe(ctx) {
		a.hub.pod(types.UID(u.PodUID))
		a.logChange(u)
	}
}

// logChange logs u. Only what a probe or the end of a container decided is worth more
// than a line for debugging.
func (a *Agent) logChange(u results.Update) {
	if isDecided(u) {
		a.events.Changed(types.UID(u.PodUID), u.Container, u.Kind, u.Result == results.Success)
	}
	text, say := "result changed", a.log.Info
	switch {
	case u.Removed:
		text, say = "result removed", a.log.Debug
	case !isDecided(u):
		say = a.log.Debug
	case u.Result == results.Failure:
		say = a.log.Warn
	}
	attrs := []any{
		"namespace", u.Namespace, "pod", u.Pod, "container", u.Container,
		"kind", u.Kind.String(), "result", u.Result.Word(), "containerID", u.ContainerID,
	}
	if u.Reason != "" {
		attrs = append(attrs, "reason", string(u.Reason))
	}
	say(text, attrs...)
}

// isDecided reports whether u is what came of something now, and not what a container begins
// or ends with.
func isDecided(u results.Update) bool {
	return !u.Removed && u.Reason != results.Initial && u.Reason != results.Restored
}

// watchPods keeps the metrics and the streams up to date with the pods, until ctx ends.
func (a *Agent) watchPods(ctx context.Context) {
	for c := range a.source.Watch(ctx) {
		if c.Removed {
			a.metrics.PodGone(c.Pod.Namespace, c.Pod.Name)
		}
		a.hub.podChanged(c)
	}
}
