package local

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// savedPod is the saved state of a pod with external targets, for the next agent.
type savedPod struct {
	UID        types.UID                 `json:"uid"`
	Namespace  string                    `json:"namespace"`
	Name       string                    `json:"name"`
	StartTime  time.Time                 `json:"startTime"`
	Ready      bool                      `json:"ready"` // the pod's condition Ready
	Containers map[string]savedContainer `json:"containers"`
}

type savedContainer struct {
	ID        string                `json:"id"`
	Hash      string                `json:"hash"` // of the definition
	StartedAt time.Time             `json:"startedAt"`
	Restarts  int32                 `json:"restarts"`
	Started   bool                  `json:"started"`
	Ready     bool                  `json:"ready"`
	Results   map[probe.Kind]string `json:"results,omitzero"` // a key of savedResults
}

// savedResults has the results that are saved, by their names in the file.
var savedResults = map[string]results.Result{"success": results.Success, "failure": results.Failure}

// freeze keeps the present state of the pod as the state to save, before the loop ends the pod. So the
// next agent restores a running pod.
func (p *pod) freeze() {
	if p.owner.state == nil {
		return
	}
	p.mu.Lock()
	frozen := p.frozen != nil
	p.mu.Unlock()
	if frozen {
		return
	}
	state := p.state()
	p.mu.Lock()
	p.frozen = &state
	p.mu.Unlock()
}

// state returns the state of the pod to save. It has no containers if there is nothing to save.
func (p *pod) state() savedPod {
	status, _ := p.owner.store.PodStatus(p.uid)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		return *p.frozen
	}
	return p.stateLocked(&status)
}

// stateLocked is [pod.state] of a pod that is not being ended.
func (p *pod) stateLocked(status *v1.PodStatus) savedPod {
	saved := savedPod{
		UID: p.uid, Namespace: p.spec.Namespace, Name: p.spec.Name, StartTime: p.begun.Time,
		Containers: make(map[string]savedContainer),
	}
	for _, c := range status.Conditions {
		saved.Ready = saved.Ready || c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	}
	for _, c := range p.containers {
		if c.process != nil || !c.running() {
			continue
		}
		s := statusNamed(status.ContainerStatuses, c.name)
		if s == nil {
			s = statusNamed(status.InitContainerStatuses, c.name)
		}
		if s == nil || s.ContainerID != c.id {
			continue
		}
		kept := savedContainer{
			ID: c.id, Hash: c.hash, StartedAt: c.started, Restarts: c.restarts,
			Started: s.Started != nil && *s.Started, Ready: s.Ready, Results: make(map[probe.Kind]string),
		}
		for _, kind := range probe.Kinds {
			if d := p.decided(kind, c.id); c.probes.kinds[kind] && d.found && d.result != results.Unknown {
				kept.Results[kind] = d.result.Word()
			}
		}
		saved.Containers[c.name] = kept
	}
	return saved
}

// restoreLocked restores external targets from the state saved by an earlier agent, if their definition has
// not changed since.
func (p *pod) restoreLocked(saved savedPod) {
	now := time.Now()
	if saved.StartTime.Before(now) && !saved.StartTime.IsZero() {
		p.begun = metav1.NewTime(saved.StartTime)
	}
	for name, kept := range saved.Containers {
		c := p.containerLocked(name)
		if c == nil || !c.external || kept.Hash != p.hashOf(c.spec) || kept.ID == "" {
			delete(saved.Containers, name)
			continue
		}
		p.setIDLocked(c, kept.ID)
		c.hash, c.restarts = kept.Hash, kept.Restarts
		p.runningLocked(c, nil)
		c.started = kept.StartedAt
		if !c.started.Before(now) { // the clock was turned back
			c.started = now.Add(-time.Second)
		}
		subject := &results.Subject{Namespace: p.spec.Namespace, Pod: p.spec.Name, PodUID: string(p.uid), Container: name}
		for kind, word := range kept.Results {
			if r, ok := savedResults[word]; ok && c.probes.kinds[kind] {
				p.owner.manager.Results(kind).Set(kept.ID, r, subject, results.Cause{Reason: results.Restored})
			}
		}
	}
	p.restored = saved
}

// firstStatus returns the probes of the pod, and the status to publish before it is probed. External targets have
// the status saved by an earlier agent.
func (p *pod) firstStatus() (*declared.Pod, v1.PodStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.statusLocked()
	for _, list := range [...][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			if kept, ok := p.restored.Containers[list[i].Name]; ok {
				list[i].Started, list[i].Ready = new(kept.Started), kept.Ready
			}
		}
	}
	var old v1.PodStatus
	setConditions(p.spec, &old, &status)
	for i := range status.Conditions {
		if status.Conditions[i].Type == v1.PodReady && p.restored.Ready && len(p.restored.Containers) > 0 {
			status.Conditions[i] = v1.PodCondition{
				Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: status.Conditions[i].LastTransitionTime,
			}
		}
	}
	p.restored = savedPod{} // free its memory
	return p.declared, status
}
