package local

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setResult writes the decided result of a container into the status of the pod. It reads the present
// result, because updates may be late.
func (p *pod) setResult(kind probe.Kind, containerID string) {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	r, ok := p.owner.manager.Results(kind).Get(containerID)
	switch {
	case !ok: // it has ended
	case kind == probe.Readiness:
		p.owner.store.SetContainerReadiness(p.uid, containerID, r == results.Success)
	case kind == probe.Startup:
		p.owner.store.SetContainerStartup(p.uid, containerID, r == results.Success)
	}
	// A liveness result changes no status: the loop acts on it and saves it.
}

// publish computes the pod's status and publishes it if it changed.
func (p *pod) publish() {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	p.mu.Lock()
	spec, status := p.spec, p.statusLocked()
	p.setRestartsWaitingLocked(&status)
	fresh := p.shown != spec
	p.shown = spec
	p.mu.Unlock()
	old, _ := p.owner.store.PodStatus(spec.UID)
	keepStarted(&old, &status)
	before := withStatus(spec, old)
	p.owner.manager.UpdatePodStatus(before, &status)
	setConditions(spec, &old, &status)
	if !fresh && reflect.DeepEqual(old, status) {
		return
	}
	p.owner.store.SetPodStatus(spec, status)
	if startedSince(&old, &status) {
		// A readiness probe that was triggered before the status was stored did nothing.
		// Trigger it again.
		p.owner.manager.UpdatePodStatus(withStatus(spec, status), status.DeepCopy())
	}
}

// statusLocked returns the status of the pod without the results of probes.
func (p *pod) statusLocked() v1.PodStatus {
	status := v1.PodStatus{PodIP: p.ip, PodIPs: []v1.PodIP{{IP: p.ip}}, StartTime: &p.begun}
	again := make(map[string]bool)
	add := func(specs []v1.Container, statuses *[]v1.ContainerStatus) {
		for i := range specs {
			if c := p.containerLocked(specs[i].Name); c != nil {
				*statuses = append(*statuses, c.status(p.initialized))
				again[c.name] = c.again || c.external
			}
		}
	}
	add(p.spec.Spec.InitContainers, &status.InitContainerStatuses)
	add(p.spec.Spec.Containers, &status.ContainerStatuses)
	if p.resetting {
		status.Conditions = append(status.Conditions, v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionTrue})
		for _, c := range p.containers {
			again[c.name] = true
		}
	}
	if p.terminating {
		clear(again)
	}
	status.Phase = phaseOf(p.spec, &status, p.terminating || p.complete, p.initialized, again)
	return status
}

// setRestartsWaitingLocked changes the state of a container that was killed to be restarted from Terminated to
// Waiting. With the policy Never, a terminated container would lose its probes, which are added before the
// status shows the new start.
func (p *pod) setRestartsWaitingLocked(status *v1.PodStatus) {
	if p.terminating || p.complete {
		return
	}
	for _, list := range [...][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			if s := &list[i]; s.State.Terminated != nil && p.containerLocked(s.Name).again {
				s.LastTerminationState.Terminated = s.State.Terminated
				s.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reasonCreating}}
			}
		}
	}
}

// keepStarted copies Started from old for containers that still run.
func keepStarted(old, status *v1.PodStatus) {
	for _, lists := range [...][2][]v1.ContainerStatus{
		{old.ContainerStatuses, status.ContainerStatuses}, {old.InitContainerStatuses, status.InitContainerStatuses},
	} {
		for i := range lists[1] {
			s := &lists[1][i]
			if before := statusNamed(lists[0], s.Name); before != nil && before.ContainerID == s.ContainerID && s.State.Running != nil {
				s.Started = before.Started
			}
		}
	}
}

// startedSince reports whether a container has started since old and is not ready.
func startedSince(old, status *v1.PodStatus) bool {
	both := func(s *v1.PodStatus) []v1.ContainerStatus {
		return slices.Concat(s.InitContainerStatuses, s.ContainerStatuses)
	}
	before := both(old)
	return slices.ContainsFunc(both(status), func(s v1.ContainerStatus) bool {
		b := statusNamed(before, s.Name)
		fresh := b == nil || b.ContainerID != s.ContainerID || b.State.Running == nil || b.Started == nil || !*b.Started
		return fresh && s.Started != nil && *s.Started && !s.Ready
	})
}

// statusNamed returns the status of a container, or nil.
func statusNamed(statuses []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

// setConditions sets the conditions of the pod. Conditions with the same status in old keep their times.
func setConditions(pod *v1.Pod, old, status *v1.PodStatus) {
	all := slices.Concat(status.InitContainerStatuses, status.ContainerStatuses)
	for _, c := range [...]v1.PodCondition{
		initializedCondition(pod, status),
		manager.PodReadyCondition(pod, old.Conditions, all, status.Phase),
		manager.ContainersReadyCondition(pod, all, status.Phase),
	} {
		c.LastTransitionTime = metav1.Now()
		for _, o := range old.Conditions {
			if o.Type == c.Type && o.Status == c.Status {
				c.LastTransitionTime = o.LastTransitionTime
			}
		}
		status.Conditions = append(status.Conditions, c)
	}
}

// initializedCondition returns the condition Initialized, as the kubelet does.
func initializedCondition(pod *v1.Pod, status *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if status.Phase == v1.PodSucceeded {
		c.Reason = manager.ReasonPodCompleted
		return c
	}
	var missing []string
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		s := statusNamed(status.InitContainerStatuses, spec.Name)
		done := s != nil && s.Ready
		if declared.IsSidecar(spec) {
			done = s != nil && s.Started != nil && *s.Started
		}
		if !done {
			missing = append(missing, spec.Name)
		}
	}
	regularRan := slices.ContainsFunc(status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.ContainerID != "" })
	if len(missing) > 0 && !regularRan {
		c.Status, c.Reason = v1.ConditionFalse, "ContainersNotInitialized"
		c.Message = fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(missing, " "))
	}
	return c
}

// phaseOf returns the phase of a pod, as the kubelet does. ended means that none of its containers will
// be started again. The containers in again will be started regardless of their restart policy.
func phaseOf(pod *v1.Pod, status *v1.PodStatus, ended, initialized bool, again map[string]bool) v1.PodPhase {
	n := initPhase(pod, status, again)
	if n.failed {
		return v1.PodFailed
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		n.regular(c, &pod.Spec, statusNamed(status.ContainerStatuses, c.Name), again[c.Name])
	}
	switch {
	case n.pending, n.sidecarPending && !initialized, n.waiting > 0:
		return v1.PodPending
	case n.running > 0 && n.unknown == 0:
		return v1.PodRunning
	case n.running > 0, n.stopped == 0, n.unknown > 0:
		return v1.PodPending
	case !ended && n.restarting > 0:
		return v1.PodRunning
	case n.succeeded == n.stopped:
		return v1.PodSucceeded
	default:
		return v1.PodFailed
	}
}

// census counts containers for the phase.
type census struct {
	failed         bool // an init container has failed and is not restarted
	pending        bool // an init container has not completed
	sidecarPending bool // a sidecar has not started
	running, waiting, unknown,
	stopped, restarting, succeeded int
}

// initPhase counts the init containers.
func initPhase(pod *v1.Pod, status *v1.PodStatus, again map[string]bool) (n census) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		s := statusNamed(status.InitContainerStatuses, c.Name)
		switch {
		case declared.IsSidecar(c):
			n.sidecar(s)
		case s == nil:
			n.pending = true
		default:
			end := terminated(s)
			n.pending = n.pending || end == nil || s.State.Running != nil
			n.failed = n.failed || !again[c.Name] && s.State.Running == nil && end != nil && end.ExitCode != 0 &&
				!manager.ContainerShouldRestart(c, &pod.Spec, end.ExitCode)
		}
	}
	return n
}

func (n *census) sidecar(s *v1.ContainerStatus) {
	switch {
	case s == nil:
		n.unknown++
	case s.State.Running != nil:
		n.running++
		n.sidecarPending = n.sidecarPending || s.Started == nil || !*s.Started
	case terminated(s) == nil:
		n.sidecarPending = true
		n.waiting++
	}
}

func (n *census) regular(c *v1.Container, spec *v1.PodSpec, s *v1.ContainerStatus, again bool) {
	switch {
	case s == nil:
		n.unknown++
		return
	case s.State.Running != nil:
		n.running++
		return
	}
	end := terminated(s)
	if end == nil {
		n.waiting++
		return
	}
	n.stopped++
	if again || manager.ContainerShouldRestart(c, spec, end.ExitCode) {
		n.restarting++
	}
	if end.ExitCode == 0 {
		n.succeeded++
	}
}

// terminated returns the end of a container that does not run, or nil.
func terminated(s *v1.ContainerStatus) *v1.ContainerStateTerminated {
	if s.State.Terminated != nil {
		return s.State.Terminated
	}
	if s.State.Waiting != nil {
		return s.LastTerminationState.Terminated
	}
	return nil
}
