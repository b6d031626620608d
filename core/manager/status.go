package manager

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// UpdatePodStatus sets Started and Ready of every container in status, by the decided results.
// pod is the pod as it was last published, with the status of an earlier agent. A readiness
// probe that has not run yet is triggered.
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
	if r, ok := m.Results(probe.Startup).Get(c.ContainerID); ok {
		return r == results.Success
	}
	if c.Started != nil && *c.Started && m.inherits(pod, c) {
		return true
	}
	running, refused := m.lookup(Key{pod.UID, c.Name, probe.Startup})
	return !running && !refused
}

// inherits reports whether c may have the status that an earlier agent gave its container.
func (m *Manager) inherits(pod *v1.Pod, c *v1.ContainerStatus) bool {
	switch {
	case m.cfg.Compat.Has(probe.CompatStatusOnRestart):
		return false
	case m.cfg.Compat.Has(probe.CompatInheritReplaced):
		return true
	}
	// kubernetes#141342: a replaced container does not inherit.
	prior := containerStatus(&pod.Status, c.Name)
	return prior != nil && prior.ContainerID == c.ContainerID
}

// ready reports whether a container that has started is ready.
func (m *Manager) ready(pod *v1.Pod, c *v1.ContainerStatus, spec *v1.Container) bool {
	if c.State.Running == nil {
		return false
	}
	r, decided := m.Results(probe.Readiness).Get(c.ContainerID)
	if decided && r == results.Success {
		return true
	}
	key := Key{pod.UID, c.Name, probe.Readiness}
	running, refused := m.lookup(key)
	if running {
		_ = m.group.Nudge(key.id()) // an error means that it has just ended
	}
	ready := !running && !refused
	if spec == nil || !m.inherits(pod, c) {
		return ready
	}
	return m.readyOverRestart(ready, decided, pod, c, running || refused || spec.ReadinessProbe != nil)
}

// readyOverRestart returns the readiness of a container that was started before the agent. Until
// its probe has decided, that is the readiness of its pod: kubernetes#100277.
func (m *Manager) readyOverRestart(ready, decided bool, pod *v1.Pod, c *v1.ContainerStatus, probed bool) bool {
	startedAt := c.State.Running.StartedAt.Time
	if startedAt.IsZero() || !startedAt.Before(m.group.StartedAt().Add(-m.cfg.RestartGrace)) {
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
	c := conditionOf(conditions, t)
	return c != nil && c.Status == v1.ConditionTrue
}

func specNamed(specs []v1.Container, name string) *v1.Container {
	for i := range specs {
		if specs[i].Name == name {
			return &specs[i]
		}
	}
	return nil
}

// specAt returns the spec at index i, if the status at i has the same name; otherwise nil.
func specAt(specs []v1.Container, statuses []v1.ContainerStatus, i int) *v1.Container {
	if len(specs) <= i || specs[i].Name != statuses[i].Name {
		return nil
	}
	return &specs[i]
}

// The reasons of a pod's Ready and ContainersReady conditions.
const (
	ReasonUnknownContainerStatuses = "UnknownContainerStatuses"
	ReasonPodCompleted             = "PodCompleted"
	ReasonPodFailed                = "PodFailed"
	ReasonContainersNotReady       = "ContainersNotReady"
	ReasonReadinessGatesNotReady   = "ReadinessGatesNotReady"
)

// ContainersReadyCondition returns the ContainersReady condition of a pod. It is true when all
// regular containers and all restartable init containers are ready. statuses are those of both;
// nil means that there are none yet.
func ContainersReadyCondition(pod *v1.Pod, statuses []v1.ContainerStatus, phase v1.PodPhase) v1.PodCondition {
	no := func(reason, message string) v1.PodCondition {
		return v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionFalse, Reason: reason, Message: message}
	}
	if statuses == nil {
		return no(ReasonUnknownContainerStatuses, "")
	}
	unknown, unready := sortContainers(pod, statuses)
	switch {
	case phase == v1.PodSucceeded && len(unknown) == 0:
		return no(ReasonPodCompleted, "")
	case phase == v1.PodFailed:
		return no(ReasonPodFailed, "")
	}
	var messages []string
	if len(unknown) > 0 {
		messages = append(messages, fmt.Sprintf("containers with unknown status: %s", unknown))
	}
	if len(unready) > 0 {
		messages = append(messages, fmt.Sprintf("containers with unready status: %s", unready))
	}
	if len(messages) > 0 {
		return no(ReasonContainersNotReady, strings.Join(messages, ", "))
	}
	return v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionTrue}
}

// sortContainers returns the names of the containers that count for readiness and have no
// status, and of those that are not ready.
func sortContainers(pod *v1.Pod, statuses []v1.ContainerStatus) (unknown, unready []string) {
	ready := make(map[string]bool, len(statuses))
	for _, s := range statuses {
		ready[s.Name] = s.Ready
	}
	sort := func(c *v1.Container) {
		switch isReady, known := ready[c.Name]; {
		case !known:
			unknown = append(unknown, c.Name)
		case !isReady:
			unready = append(unready, c.Name)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; IsSidecar(c) {
			sort(c)
		}
	}
	for i := range pod.Spec.Containers {
		sort(&pod.Spec.Containers[i])
	}
	return unknown, unready
}

// PodReadyCondition returns the Ready condition of a pod. It is true when its containers are
// ready and the conditions of all readiness gates are true.
func PodReadyCondition(pod *v1.Pod, conditions []v1.PodCondition, statuses []v1.ContainerStatus, phase v1.PodPhase) v1.PodCondition {
	ready := ContainersReadyCondition(pod, statuses, phase)
	ready.Type = v1.PodReady
	if ready.Status != v1.ConditionTrue {
		return ready
	}
	var messages []string
	for _, gate := range pod.Spec.ReadinessGates {
		c := conditionOf(conditions, gate.ConditionType)
		switch {
		case c == nil:
			messages = append(messages, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != v1.ConditionTrue:
			messages = append(messages, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, c.Status))
		}
	}
	if len(messages) > 0 {
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, ReasonReadinessGatesNotReady, strings.Join(messages, ", ")
	}
	return ready
}

func conditionOf(conditions []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == t {
			return &conditions[i]
		}
	}
	return nil
}
