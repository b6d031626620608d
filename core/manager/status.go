package manager

import (
	"fmt"
	"strings"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	v1 "k8s.io/api/core/v1"
)

// UpdatePodStatus sets Started and Ready of every container in status. It may be called before AddPod and
// after RemovePod: a probe that pod declares and that has decided nothing, running or not, counts as not
// succeeded. Its container has not started, or is not ready.
//
// pod must have the last published status. A container that has started in that status has started, unless
// its startup probe has decided otherwise. A readiness probe that has not run yet is triggered. Before
// AddPod and after RemovePod, the manager does not know typed probes.
func (m *Manager) UpdatePodStatus(pod *v1.Pod, status *v1.PodStatus) {
	u := statusUpdate{m, pod, m.cfg.Compat.Has(probe.CompatStatusFromWorkers)}
	for i := range status.ContainerStatuses {
		c := &status.ContainerStatuses[i]
		u.set(c, declared.ContainerNamed(pod.Spec.Containers, c.Name))
	}
	for i := range status.InitContainerStatuses {
		c := &status.InitContainerStatuses[i]
		if spec := u.initSpec(status.InitContainerStatuses, i); spec != nil && declared.IsSidecar(spec) {
			u.set(c, spec)
		} else {
			u.setPlain(c, spec)
		}
	}
}

// statusUpdate is one call of UpdatePodStatus.
type statusUpdate struct {
	m           *Manager
	pod         *v1.Pod
	fromWorkers bool // [probe.CompatStatusFromWorkers]
}

// set sets the status of a regular container, or of a sidecar. spec is nil if the pod has no such
// container.
func (u *statusUpdate) set(c *v1.ContainerStatus, spec *v1.Container) {
	c.Started = new(u.started(c, spec))
	switch {
	case *c.Started:
		c.Ready = u.ready(c, spec)
	case !u.fromWorkers:
		c.Ready = false
	}
}

// setPlain sets the status of an init container that is not restartable. spec is nil if the pod has
// no such container.
func (u *statusUpdate) setPlain(c *v1.ContainerStatus, spec *v1.Container) {
	c.Started = new(u.started(c, nil))
	switch {
	case spec == nil && u.fromWorkers:
	case spec != nil && c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
		c.Ready = true
	case !u.fromWorkers:
		c.Ready = false
	}
}

// initSpec returns the init container of the status at index i; nil if the pod has none.
func (u *statusUpdate) initSpec(statuses []v1.ContainerStatus, i int) *v1.Container {
	specs := u.pod.Spec.InitContainers
	if !u.fromWorkers {
		return declared.ContainerNamed(specs, statuses[i].Name)
	}
	if len(specs) <= i || specs[i].Name != statuses[i].Name {
		return nil
	}
	return &specs[i]
}

// decided returns the decided result of the container of c. It ignores the result of another container with
// the same ID.
func (u *statusUpdate) decided(c *v1.ContainerStatus, kind probe.Kind) (results.Result, bool) {
	cache := u.m.Results(kind)
	if by := seam.Reveal(cache).Claimant(c.ContainerID); by != nil && (by.Subject.PodUID != string(u.pod.UID) || by.Subject.Container != c.Name) {
		return results.Unknown, false
	}
	return cache.Get(c.ContainerID)
}

func (u *statusUpdate) started(c *v1.ContainerStatus, spec *v1.Container) bool {
	if c.State.Running == nil {
		return false
	}
	if r, ok := u.decided(c, probe.Startup); ok {
		return r == results.Success
	}
	if u.hadStarted(c) || u.m.record(u.pod.UID).hasStarted(c.Name, c.ContainerID) {
		return true
	}
	_, counts := u.lookup(c.Name, probe.Startup, spec)
	return !counts
}

// hadStarted reports whether the container of c had started in the last status, by an earlier agent or
// before its startup probe was stopped.
func (u *statusUpdate) hadStarted(c *v1.ContainerStatus) bool {
	if !u.inherits(c) {
		return false
	}
	prior := u.prior(c)
	return isTrue(c.Started) || !u.fromWorkers && prior != nil && isTrue(prior.Started)
}

func isTrue(b *bool) bool { return b != nil && *b }

// prior returns the last status of the container with the ID of c; nil if there is none.
func (u *statusUpdate) prior(c *v1.ContainerStatus) *v1.ContainerStatus {
	if prior := containerStatus(&u.pod.Status, c.Name); prior != nil && prior.ContainerID == c.ContainerID {
		return prior
	}
	return nil
}

// inherits reports whether c may take over the previous status of its container.
func (u *statusUpdate) inherits(c *v1.ContainerStatus) bool {
	switch {
	case u.m.cfg.Compat.Has(probe.CompatStatusOnRestart):
		return false
	case u.m.cfg.Compat.Has(probe.CompatInheritReplaced):
		return true
	}
	return u.prior(c) != nil // kubernetes#141342: a replaced container does not inherit.
}

// lookup reports whether a probe has a worker, and whether it counts. A probe without a worker counts if it
// is declared (kubernetes#142305). The record is read first, because AddPod starts a worker before it
// replaces the record.
func (u *statusUpdate) lookup(name string, kind probe.Kind, spec *v1.Container) (running, counts bool) {
	record, probe := u.m.record(u.pod.UID), declared.Name{Container: name, Kind: kind}
	switch {
	case u.m.group.Has(probeID{Key: u.pod.UID, Task: name, Kind: kind}):
		return true, true
	case u.fromWorkers:
		return false, record.refuses(probe)
	default:
		return false, u.m.declares(u.pod, record, spec, probe)
	}
}

// ready reports whether a container that has started is ready.
func (u *statusUpdate) ready(c *v1.ContainerStatus, spec *v1.Container) bool {
	r, decided := u.decided(c, probe.Readiness)
	if decided && r == results.Success {
		return true
	}
	running, counts := u.lookup(c.Name, probe.Readiness, spec)
	if running {
		_ = seam.Reveal(u.m.group).Nudge(probeID{Key: u.pod.UID, Task: c.Name, Kind: probe.Readiness}) // an error means that the probe has just ended
	}
	if spec == nil || !u.inherits(c) {
		return !counts
	}
	return u.readyOverRestart(!counts, decided, c, counts || spec.ReadinessProbe != nil)
}

// readyOverRestart returns the readiness of a container that was started before the agent. Until its probe
// has decided, it is the readiness of its pod (kubernetes#100277).
func (u *statusUpdate) readyOverRestart(ready, decided bool, c *v1.ContainerStatus, probed bool) bool {
	startedAt := c.State.Running.StartedAt.Time
	if startedAt.IsZero() || !startedAt.Before(u.m.group.StartedAt().Add(-u.m.cfg.RestartGrace)) {
		return ready
	}
	if !decided {
		ready = true
	}
	if probed && !conditionTrue(u.pod.Status.Conditions, v1.PodReady) {
		ready = false
	}
	return ready
}

func conditionTrue(conditions []v1.PodCondition, t v1.PodConditionType) bool {
	c := conditionOf(conditions, t)
	return c != nil && c.Status == v1.ConditionTrue
}

// The reasons of a pod's Ready and ContainersReady conditions.
const (
	ReasonUnknownContainerStatuses = "UnknownContainerStatuses"
	ReasonPodCompleted             = "PodCompleted"
	ReasonPodFailed                = "PodFailed"
	ReasonContainersNotReady       = "ContainersNotReady"
	ReasonReadinessGatesNotReady   = "ReadinessGatesNotReady"
)

// ContainersReadyCondition returns the ContainersReady condition of a pod. It is true if all regular and
// all restartable init containers are ready. statuses has the statuses of both; nil means that they are
// unknown.
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

// sortContainers returns the names of the containers that count for readiness: those without a status, and
// those that are not ready.
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
		if c := &pod.Spec.InitContainers[i]; declared.IsSidecar(c) {
			sort(c)
		}
	}
	for i := range pod.Spec.Containers {
		sort(&pod.Spec.Containers[i])
	}
	return unknown, unready
}

// PodReadyCondition returns the Ready condition of a pod. It is true if the containers are ready and the
// conditions of all readiness gates are true.
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
