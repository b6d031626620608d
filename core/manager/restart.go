package manager

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// IsSidecar reports whether c, an init container, is restartable: it runs beside the regular
// containers, and may have probes.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// ContainerShouldRestart reports whether a container that exited with exitCode is restarted. The
// first restart rule that matches decides, or else the restart policy of the container, or else
// that of the pod. Without a policy of the container its rules do not count.
func ContainerShouldRestart(c *v1.Container, pod *v1.PodSpec, exitCode int32) bool {
	policy := pod.RestartPolicy
	if c.RestartPolicy != nil {
		if action, ok := matchingAction(c, exitCode); ok &&
			(action == v1.ContainerRestartRuleActionRestart || action == v1.ContainerRestartRuleActionRestartAllContainers) {
			return true
		}
		switch *c.RestartPolicy {
		case v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever:
			policy = v1.RestartPolicy(*c.RestartPolicy)
		}
	}
	switch policy {
	case v1.RestartPolicyOnFailure:
		return exitCode != 0
	case v1.RestartPolicyNever:
		return false
	default:
		return true
	}
}

// AllContainersShouldRestart reports whether all containers of pod are restarted together: a
// condition in its status says so, or a rule of a container that has exited asks for it.
func AllContainersShouldRestart(pod *v1.Pod, status *v1.PodStatus) bool {
	for _, c := range status.Conditions {
		if c.Type == v1.AllContainersRestarting && c.Status == v1.ConditionTrue {
			return true
		}
	}
	asks := func(specs []v1.Container, statuses ...[]v1.ContainerStatus) bool {
		for i := range specs {
			for _, s := range slices.Concat(statuses...) {
				if s.Name != specs[i].Name || s.State.Terminated == nil {
					continue
				}
				action, ok := matchingAction(&specs[i], s.State.Terminated.ExitCode)
				if ok && action == v1.ContainerRestartRuleActionRestartAllContainers {
					return true
				}
			}
		}
		return false
	}
	return asks(pod.Spec.InitContainers, status.InitContainerStatuses) || asks(pod.Spec.Containers, status.ContainerStatuses)
}

// matchingAction returns the action of the first rule that exitCode matches.
func matchingAction(c *v1.Container, exitCode int32) (action v1.ContainerRestartRuleAction, ok bool) {
	for _, rule := range c.RestartPolicyRules {
		if rule.ExitCodes == nil {
			continue
		}
		in := slices.Contains(rule.ExitCodes.Values, exitCode)
		switch rule.ExitCodes.Operator {
		case v1.ContainerRestartRuleOnExitCodesOpIn:
			ok = in
		case v1.ContainerRestartRuleOnExitCodesOpNotIn:
			ok = !in
		}
		if ok {
			return rule.Action, true
		}
	}
	return "", false
}
