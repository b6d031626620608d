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
	breakerPoll = time.Second      // between two looks at the breaker
	resync      = 10 * time.Second // between two looks at all pods, for pauses; nothing is written if nothing has changed
)

// reportLoop tells the conditions and events of pods that have changed, until ctx ends.
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

// reportAll has all pods reported, and those applied again that wait for their network.
func (s *Source) reportAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, p := range s.pods {
		s.toReport.Put(uid)
		if p.waits {
			s.toApply.Put(uid)
		}
	}
}

// report tells the conditions of a pod, and an event for each transition of a probe.
func (s *Source) report(uid types.UID) {
	s.mu.Lock()
	p := s.pods[uid]
	if p == nil || p.gone || p.plan == nil || p.changing() {
		s.mu.Unlock()
		return
	}
	latest, shown, perProbe, seen := p.latest, p.shown, p.plan.perProbe, p.changes
	text, workload := p.told, p.party().Scope
	s.mu.Unlock()
	known := s.states.of(uid)
	s.tellTransitions(p, shown, known)
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
		s.tellNotProbed(latest)
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

// changing reports whether an attempt is giving the manager the probes of the pod: it may have ended old ones, and
// not started new ones yet, and a reader would take the pod for one without them. The attempt has the pod published
// and reported when it is done. The caller holds the mutex of the Source.
func (p *pod) changing() bool { return p.changes%2 == 1 }

// changed reports whether the probes of a pod may have changed since changes was seen.
func (s *Source) changed(p *pod, seen int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.changes != seen
}

func isGated(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(g v1.PodReadinessGate) bool { return g.ConditionType == conditions.Ready })
}

// probesOf returns the states of the probes of a pod, and those that could not be started as undecided
// ones: an invalid annotation must not make a pod ready. invalid is what is wrong with the pod.
func (s *Source) probesOf(uid types.UID, pod *v1.Pod, known map[probeKey]probeState, invalid string) (probes []conditions.Probe) {
	for _, info := range s.manager.SelectPod(uid, func(*worker.Info) bool { return true }) {
		is := known[probeKey{info.Container, info.Kind}]
		now, _ := s.manager.Latest(manager.Key{PodUID: uid, Container: info.Container, Kind: info.Kind})
		probes = append(probes, conditions.Probe{
			Container: info.Container, Kind: info.Kind, State: is.state, Decided: is.decided, Failed: is.failed, Text: is.text, Paused: now.Paused,
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

// markStarted marks the startup probes as successful that have not decided, of containers that have started:
// they make no attempts, since they have succeeded for an earlier agent.
func markStarted(status *v1.PodStatus, probes []conditions.Probe) {
	started := startedOf(status)
	for i := range probes {
		is := &probes[i]
		if is.Kind == probe.Startup && !is.Decided && started[is.Container] {
			is.State, is.Decided = states.Success, true
		}
	}
}

func startedOf(status *v1.PodStatus) map[string]bool {
	started := make(map[string]bool)
	each(status, func(c *v1.ContainerStatus) { started[c.Name] = c.Started != nil && *c.Started })
	return started
}

// markRenewed marks the readiness and startup probes of containers that were started again as failed, until
// they have succeeded: as for the kubelet, a new container is not ready. Where the agent has seen the end of
// the old container, the state says so already; a status may skip it. A container that was started while
// there was no agent is a new one too, if the gate was true for the one before.
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
		is := &probes[i]
		if is.Kind == probe.Liveness || !p.renewed[is.Container] || is.Kind == probe.Startup && started[is.Container] {
			continue
		}
		if r, ok := s.manager.Results(probe.Readiness).Get(p.running[is.Container]); ok && r == results.Success && is.Kind == probe.Readiness {
			delete(p.renewed, is.Container)
			continue
		}
		if is.State == states.Unknown && is.Text != "" { // which has a cause of its own
			is.Decided, is.Failed = true, true
		} else if !is.Failed {
			is.State, is.Decided, is.Failed, is.Text = states.Failure, true, true, "the container was started again"
		}
	}
}

// tellTransitions writes an event for each probe whose state is another one than the last event, or the
// first one, has told. A state of unknown is none, and neither is the end of a container: the kubelet
// writes events about that.
func (s *Source) tellTransitions(p *pod, pod *v1.Pod, known map[probeKey]probeState) {
	for key, is := range known {
		before, told := p.known[key]
		if !told {
			before = p.earlier[key]
		}
		if is.state == states.Unknown && !is.decided && is.text != "" && (!told || before != states.Unknown) {
			p.known[key] = is.state
			s.tellState(pod, key, v1.EventTypeWarning, "ProbeUnknown", fmt.Sprintf("%s probe cannot be carried out: %s", titleOf(key.kind), is.text))
			continue
		}
		if is.state == states.Unknown || is.ended {
			continue
		}
		p.known[key] = is.state
		delete(p.earlier, key)
		if is.state == before {
			continue
		}
		kind := titleOf(key.kind)
		eventType, reason, message := v1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %s", kind, is.text)
		switch {
		case is.state == states.Warning:
			reason, message = "ProbeWarning", fmt.Sprintf("%s probe warning: %s", kind, is.text)
		case is.state == states.Success && before == states.Unknown: // the first state
			continue
		case is.state == states.Success:
			eventType, reason, message = v1.EventTypeNormal, "Healthy", fmt.Sprintf("%s probe succeeded after a %s", kind, before)
		}
		s.tellState(pod, key, eventType, reason, message)
	}
	maps.DeleteFunc(p.known, func(key probeKey, _ states.State) bool { _, ok := known[key]; return !ok })
}

// tellState writes an event about a probe.
func (s *Source) tellState(pod *v1.Pod, key probeKey, eventType, reason, message string) {
	object := manager.ContainerReference(pod.Namespace, pod.Name, pod.UID, key.container, isInit(pod, key.container))
	target := s.manager.Target(manager.Key{PodUID: pod.UID, Container: key.container, Kind: key.kind})
	s.cfg.Events.TargetEvent(object, target, eventType, reason, clip.Text(message, maxMessage))
}

// titleOf returns a kind as the events of the kubelet begin with it.
func titleOf(kind probe.Kind) string {
	return map[probe.Kind]string{probe.Liveness: "Liveness", probe.Readiness: "Readiness", probe.Startup: "Startup"}[kind]
}

// trueBefore reports whether a condition is true, and became so before begun.
func trueBefore(c *v1.PodCondition, begun time.Time) bool {
	return c != nil && c.Status == v1.ConditionTrue && !trueSince(c, begun)
}

func isInit(pod *v1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == container })
}
