package agent

import (
	"context"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
)

// logChanges logs every change of a decided result and sends it to the streams, until ctx ends.
func (a *Agent) logChanges(ctx context.Context) {
	for u := range a.manager.Subscribe(ctx) {
		a.hub.Probe(manager.Key{PodUID: types.UID(u.PodUID), Container: u.Container, Kind: u.Kind})
		a.logChange(u)
	}
}

// logChange logs u: results that a probe decided at Info or Warn, all others at Debug. For a failure it logs
// the output of the deciding attempt.
func (a *Agent) logChange(u results.Update) {
	if isDecided(u) {
		a.events.Changed(types.UID(u.PodUID), u.Container, u.Kind, u.Result == results.Success)
	}
	text, log := "result changed", a.log.Info
	switch {
	case u.Removed:
		text, log = "result removed", a.log.Debug
	case !isDecided(u):
		log = a.log.Debug
	case u.Result == results.Failure:
		log = a.log.Warn
	}
	attrs := []any{
		"namespace", u.Namespace, "pod", u.Pod, "container", u.Container,
		"kind", u.Kind.String(), "result", u.Result.Word(), "containerID", u.ContainerID,
	}
	if target := a.manager.Target(manager.Key{PodUID: types.UID(u.PodUID), Container: u.Container, Kind: u.Kind}); target != "" {
		attrs = append(attrs, "target", target)
	}
	if u.Reason != "" {
		attrs = append(attrs, "reason", string(u.Reason))
	}
	if u.Result != results.Success && u.Output != "" && isDecided(u) {
		attrs = append(attrs, "output", u.Output)
	}
	log(text, attrs...)
}

// isDecided reports whether a probe has just decided u. Other results are initial, restored, forced or removed ones.
func isDecided(u results.Update) bool {
	return !u.Removed && u.Reason != results.Initial && u.Reason != results.Restored && u.Reason != results.Forced
}

// watchPods updates the metrics and the places of pods when pods change or are removed, until ctx ends.
func (a *Agent) watchPods(ctx context.Context) {
	for c := range a.source.Watch(ctx) {
		a.places.changed(c)
		if c.Removed {
			a.metrics.PodGone(c.Pod.Namespace, c.Pod.Name, string(c.Pod.UID))
			continue
		}
		ready := slices.ContainsFunc(c.Pod.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
		})
		a.metrics.PodReady(c.Pod.Namespace, c.Pod.Name, string(c.Pod.UID), ready)
	}
}

// paused yields the probes that a client has paused.
func (a *Agent) paused() iter.Seq[worker.Info] {
	return func(yield func(worker.Info) bool) {
		for _, key := range a.pauses.Keys() {
			for _, info := range a.manager.SelectPod(key.PodUID, func(i *worker.Info) bool { return i.Container == key.Container && i.Kind == key.Kind }) {
				if !yield(info) {
					return
				}
			}
		}
	}
}
