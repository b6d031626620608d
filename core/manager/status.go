package manager

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// UpdatePodStatus sets Started and Ready of every container status in status from
// the decided results. pod is the pod as it was last published: its own status says
// what an earlier agent knew. A readiness probe that has not run yet is triggered.
func (m *Manager) UpdatePodStatus(_ context.Context, pod *v1.Pod, status *v1.PodStatus) {
	for i := range status.ContainerStatuses {
		c := &status.ContainerStatuses[i]
		started := m.started(pod, c)
		c.Started = &started
		if started {
			c.Ready = m.ready(pod, c, specNamed(pod.Spec.Containers, c.Name))
		}
	}
	for i := range status.InitContainerStatuses {
		c := &status.InitContainerStatuses[i]
		started := m.started(pod, c)
		c.Started = &started
		spec := specAt(pod.Spec.InitContainers, status.InitContainerStatuses, i)
		switch {
		case spec == nil: // the status is not of this pod's spec
		case !IsSidecar(spec):
			if c.State.Terminated != nil && c.State.Terminated.ExitCode == 0 {
				c.Ready = true
			}
		case started:
			c.Ready = m.ready(pod, c, spec)
		}
	}
}

func (m *Manager) started(pod *v1.Pod, c *v1.ContainerStatus) bool {
	if c.State.Running == nil {
		return false
	}
	if r, ok := m.cfg.Startup.Get(c.ContainerID); ok {
		return r == results.Success
	}
	if c.Started != nil && *c.Started && m.inherits(pod, c) {
		return true
	}
	e, refused := m.lookup(Key{pod.UID, c.Name, probe.Startup})
	return e == nil && !refused
}

// inherits reports whether what the status says of c may come from an earlier agent.
func (m *Manager) inherits(pod *v1.Pod, c *v1.ContainerStatus) bool {
	switch {
	case m.cfg.Compat.Has(probe.CompatStatusOnRestart):
		return false
	case m.cfg.Compat.Has(probe.CompatInheritReplaced):
		return true
	}
	// kubernetes#141342: a replaced container starts afresh.
	prior := containerStatus(&pod.Status, c.Name)
	return prior != nil && prior.ContainerID == c.ContainerID
}

// ready says whether a container that has started is ready.
func (m *Manager) ready(pod *v1.Pod, c *v1.ContainerStatus, spec *v1.Container) bool {
	if c.State.Running == nil {
		return false
	}
	r, decided := m.cfg.Readiness.Get(c.ContainerID)
	if decided && r == results.Success {
		return true
	}
	e, refused := m.lookup(Key{pod.UID, c.Name, probe.Readiness})
	if e != nil {
		e.worker.Nudge()
	}
	ready := e == nil && !refused
	if spec == nil || !m.inherits(pod, c) {
		return ready
	}
	return m.readyOverRestart(ready, decided, pod, c, e != nil || refused || spec.ReadinessProbe != nil)
}

// readyOverRestart keeps a container that ran before the agent was started as ready
// as its pod was, until its probe has decided: kubernetes#100277.
func (m *Manager) readyOverRestart(ready, decided bool, pod *v1.Pod, c *v1.ContainerStatus, probed bool) bool {
	startedAt := c.State.Running.StartedAt.Time
	if startedAt.IsZero() || !startedAt.Before(m.start.Add(-m.cfg.RestartGrace)) {
		return ready
	}
	if !decided {
		ready = true
	}
	if probed && !conditionTrue(pod.Status.Conditions, v1.PodReady) {
		ready = false
	}
	return ready
}

func conditionTrue(conditions []v1.PodCondition, t v1.PodConditionType) bool {
	for _, c := range conditions {
		if c.Type == t {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func specNamed(specs []v1.Container, name string) *v1.Container {
	for i := range specs {
		if specs[i].Name == name {
			return &specs[i]
		}
	}
	return nil
}

// specAt returns the spec at the index of a status when both lists agree there.
func specAt(specs []v1.Container, statuses []v1.ContainerStatus, i int) *v1.Container {
	if len(specs) <= i || specs[i].Name != statuses[i].Name {
		return nil
	}
	return &specs[i]
}
