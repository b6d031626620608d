package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/probe"
)

const (
	breakerPoll = time.Second      // between two checks of the breaker
	resync      = 10 * time.Second // between two reports of all pods, for pauses; unchanged conditions are not written
)

// reportLoop reports the conditions and events of changed pods until ctx ends.
func (s *Source) reportLoop(ctx context.Context) {
	ticker := time.NewTicker(breakerPoll)
	defer ticker.Stop()
	doubts, last := s.actor.Doubts(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.toReport.Wake:
			for _, uid := range s.toReport.Take() {
				s.report(uid)
			}
		case now := <-ticker.C:
			before := doubts
			if doubts = s.actor.Doubts(); maps.Equal(doubts, before) && now.Sub(last) < resync {
				continue
			}
			last = now
			s.reportAll()
		}
	}
}

// reportAll queues all pods to be reported, and those that wait for their network to be applied again.
func (s *Source) reportAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, p := range s.pods {
		s.toReport.Put(uid)
		if p.awaitsNetwork {
			s.toApply.Put(uid)
		}
	}
}

// report gives the states of a pod's probes to the writer of conditions, and records events for transitions.
func (s *Source) report(uid types.UID) {
	s.mu.Lock()
	p := s.pods[uid]
	if p == nil || p.gone || p.plan == nil || p.changing() {
		s.mu.Unlock()
		return
	}
	latest, shown, perProbe, seen := p.latest, p.shown, p.plan.perProbe, p.changes
	text, workload := p.invalidMessage, p.party().Scope
	s.mu.Unlock()
	known := s.states.podStates(uid)
	s.recordTransitions(p, shown, known)
	probes := s.probesOf(uid, shown, known, text)
	if status, ok := s.store.PodStatus(uid); ok {
		markStarted(&status, probes)
		s.markRenewed(p, latest, &status, probes)
	}
	if s.changed(p, seen) {
		return // some of its probes may be missing
	}
	switch {
	case len(probes) > 0:
		s.mu.Lock()
		delete(s.unprobed, uid)
		s.mu.Unlock()
	case latest.DeletionTimestamp == nil:
		s.recordNotProbed(latest)
	}
	s.cfg.Conditions.Set(conditions.Pod{
		Pod:   api.Pod{Namespace: latest.Namespace, Name: latest.Name, UID: uid},
		Gated: isGated(latest), Generation: latest.Generation, PerProbe: perProbe, Ending: latest.DeletionTimestamp != nil, Frozen: s.actor.Doubts().About(workload).Blind,
		Probes: probes, Published: publishedConditions(latest),
	})
	if !s.has(uid, p) { // removed meanwhile
		s.cfg.Conditions.Remove(uid)
	}
}

// changing reports whether an attempt is changing the probes of the pod in the manager: some may have ended, and
// their successors not started yet. The attempt queues the pod to be published and reported at its end. The caller
// holds the mutex of the Source.
func (p *pod) changing() bool { return p.changes%2 == 1 }

// changed reports whether the probes of a pod may have changed since p.changes was seen.
func (s *Source) changed(p *pod, seen int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.changes != seen
}

func isGated(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(g v1.PodReadinessGate) bool { return g.ConditionType == conditions.Ready })
}

// probesOf returns the states of the probes of a pod, in the order of its containers. Probes that could not be
// started are undecided: an invalid annotation must not make a pod ready. invalid is their text.
func (s *Source) probesOf(uid types.UID, pod *v1.Pod, known map[probeKey]probeState, invalid string) (probes []conditions.Probe) {
	for _, info := range s.manager.SelectPod(uid, func(*worker.Info) bool { return true }) {
		known := known[probeKey{info.Container, info.Kind}]
		now, _ := s.manager.Latest(manager.Key{PodUID: uid, Container: info.Container, Kind: info.Kind})
		probes = append(probes, conditions.Probe{
			Container: info.Container, Kind: info.Kind, State: known.state, Decided: known.decided, Failed: known.failed, Text: known.text, Paused: now.Paused,
		})
	}
	for _, key := range s.manager.Refused(uid) {
		probes = append(probes, conditions.Probe{Container: key.Container, Kind: key.Kind, Text: invalid})
	}
	place := make(map[string]int)
	for _, list := range [...][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			place[list[i].Name] = len(place)
		}
	}
	slices.SortFunc(probes, func(a, b conditions.Probe) int {
		return cmp.Or(cmp.Compare(place[a.Container], place[b.Container]), cmp.Compare(a.Kind, b.Kind))
	})
	return probes
}

// markStarted marks undecided startup probes of started containers as successful. Such probes make no attempts,
// since they have succeeded for an earlier agent.
func markStarted(status *v1.PodStatus, probes []conditions.Probe) {
	started := startedOf(status)
	for i := range probes {
		p := &probes[i]
		if p.Kind == probe.Startup && !p.Decided && started[p.Container] {
			p.State, p.Decided = states.Success, true
		}
	}
}

func startedOf(status *v1.PodStatus) map[string]bool {
	started := make(map[string]bool)
	each(status, func(c *v1.ContainerStatus) { started[c.Name] = c.Started != nil && *c.Started })
	return started
}

// markRenewed marks the readiness and startup probes of restarted containers as failed until they have succeeded:
// as in the kubelet, a new container is not ready. It is needed because a status may skip the end of the old
// container. A container that was started while no agent ran counts as restarted if the gate was true before.
func (s *Source) markRenewed(p *pod, latest *v1.Pod, status *v1.PodStatus, probes []conditions.Probe) {
	each(status, func(c *v1.ContainerStatus) {
		if c.ContainerID == "" || p.running[c.Name] == c.ContainerID {
			return
		}
		p.renewed[c.Name] = p.running[c.Name] != "" || c.State.Running != nil && trueBefore(conditionOf(latest, conditions.Ready), c.State.Running.StartedAt.Time)
		p.running[c.Name] = c.ContainerID
	})
	started := startedOf(status)
	for i := range probes {
		one := &probes[i]
		if one.Kind == probe.Liveness || !p.renewed[one.Container] || one.Kind == probe.Startup && started[one.Container] {
			continue
		}
		if r, ok := s.manager.Results(probe.Readiness).Get(p.running[one.Container]); ok && r == results.Success && one.Kind == probe.Readiness {
			delete(p.renewed, one.Container)
			continue
		}
		if one.State == states.Unknown && one.Text != "" { // keep the cause that it has
			one.Decided, one.Failed = true, true
		} else if !one.Failed {
			one.State, one.Decided, one.Failed, one.Text = states.Failure, true, true, "the container was started again"
		}
	}
}

// recordTransitions records an event for each probe whose state differs from its last event. It skips a first
// success, the end of a container, for which the kubelet has events, and the state unknown, unless the probe
// has decided nothing and cannot be carried out.
func (s *Source) recordTransitions(p *pod, pod *v1.Pod, known map[probeKey]probeState) {
	for key, now := range known {
		before, reported := p.reported[key]
		if !reported {
			before = p.earlier[key]
		}
		if now.state == states.Unknown && !now.decided && now.text != "" && (!reported || before != states.Unknown) {
			p.reported[key] = now.state
			s.recordState(pod, key, v1.EventTypeWarning, "ProbeUnknown", fmt.Sprintf("%s probe cannot be carried out: %s", titleOf(key.kind), now.text))
			continue
		}
		if now.state == states.Unknown || now.ended {
			continue
		}
		p.reported[key] = now.state
		delete(p.earlier, key)
		if now.state == before {
			continue
		}
		kind := titleOf(key.kind)
		eventType, reason, message := v1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %s", kind, now.text)
		switch {
		case now.state == states.Warning:
			reason, message = "ProbeWarning", fmt.Sprintf("%s probe warning: %s", kind, now.text)
		case now.state == states.Success && before == states.Unknown: // the first state
			continue
		case now.state == states.Success:
			eventType, reason, message = v1.EventTypeNormal, "Healthy", fmt.Sprintf("%s probe succeeded after a %s", kind, before)
		}
		s.recordState(pod, key, eventType, reason, message)
	}
	maps.DeleteFunc(p.reported, func(key probeKey, _ states.State) bool { _, ok := known[key]; return !ok })
}

// recordState records an event about a probe.
func (s *Source) recordState(pod *v1.Pod, key probeKey, eventType, reason, message string) {
	object := manager.ContainerReference(pod.Namespace, pod.Name, pod.UID, key.container, isInit(pod, key.container))
	target := s.manager.Target(manager.Key{PodUID: pod.UID, Container: key.container, Kind: key.kind})
	s.cfg.Events.TargetEvent(object, target, eventType, reason, clip.Text(message, maxMessage))
}

// titleOf returns a kind capitalized, as the kubelet's events have it.
func titleOf(kind probe.Kind) string {
	return map[probe.Kind]string{probe.Liveness: "Liveness", probe.Readiness: "Readiness", probe.Startup: "Startup"}[kind]
}

// trueBefore reports whether a condition is true, and became true before begun.
func trueBefore(c *v1.PodCondition, begun time.Time) bool {
	return c != nil && c.Status == v1.ConditionTrue && !trueSince(c, begun)
}

func isInit(pod *v1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == container })
}
