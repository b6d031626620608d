package manager

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// The reasons of a pod's Ready and ContainersReady conditions.
const (
	ReasonUnknownContainerStatuses = "UnknownContainerStatuses"
	ReasonPodCompleted             = "PodCompleted"
	ReasonPodFailed                = "PodFailed"
	ReasonContainersNotReady       = "ContainersNotReady"
	ReasonReadinessGatesNotReady   = "ReadinessGatesNotReady"
)

// ContainersReadyCondition returns the ContainersReady condition of a pod: true when
// all regular containers and all restartable init containers are ready. statuses are
// those of both; nil means that there are none yet.
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

// sortContainers names the containers that count for readiness and have no status,
// and those whose status is not ready.
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

// PodReadyCondition returns the Ready condition of a pod: that its containers are
// ready and the conditions of all of its readiness gates true.
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
