package manager

import (
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// ContainerShouldRestart reports whether a container that exited with exitCode is restarted. The first
// matching restart rule decides, or else the restart policy of the container, or else the pod's. Rules have
// no effect without a policy of the container.
func ContainerShouldRestart(c *v1.Container, pod *v1.PodSpec, exitCode int32) bool {
	return policyOf(c, false).restarts(pod.RestartPolicy, exitCode)
}

// AllContainersShouldRestart reports whether all containers of pod are restarted together, because of a
// condition in its status or of a rule of an exited container.
func AllContainersShouldRestart(pod *v1.Pod, status *v1.PodStatus) bool {
	v := viewOf(pod)
	return v.allRestart(status)
}

// podView has the fields of a pod that the states of its containers depend on.
type podView struct {
	resourceVersion string
	deleting        bool
	policy          v1.RestartPolicy
	own             []restartPolicy // of the containers with a policy or rules
}

// restartPolicy is the restart policy of one container, with its rules.
type restartPolicy struct {
	container string
	init      bool
	policy    *v1.ContainerRestartPolicy
	rules     []v1.ContainerRestartRule
}

func viewOf(pod *v1.Pod) podView {
	v := podView{
		resourceVersion: pod.ResourceVersion, deleting: pod.DeletionTimestamp != nil, policy: pod.Spec.RestartPolicy,
	}
	add := func(all []v1.Container, init bool) {
		for i := range all {
			if r := policyOf(&all[i], init); r.policy != nil || len(r.rules) > 0 {
				v.own = append(v.own, r.clone())
			}
		}
	}
	add(pod.Spec.InitContainers, true)
	add(pod.Spec.Containers, false)
	return v
}

func policyOf(c *v1.Container, init bool) restartPolicy {
	return restartPolicy{c.Name, init, c.RestartPolicy, c.RestartPolicyRules}
}

// clone returns a copy that shares no memory with the container.
func (r restartPolicy) clone() restartPolicy {
	if r.policy != nil {
		r.policy = new(*r.policy)
	}
	rules := make([]v1.ContainerRestartRule, len(r.rules))
	for i := range rules {
		r.rules[i].DeepCopyInto(&rules[i])
	}
	r.rules = rules
	return r
}

// equal reports whether both views lead to the same container states.
func (v *podView) equal(o *podView) bool {
	return v.deleting == o.deleting && v.policy == o.policy && reflect.DeepEqual(v.own, o.own)
}

// restartPolicyOf returns the restart policy of a container.
func (v *podView) restartPolicyOf(container string) restartPolicy {
	for _, r := range v.own {
		if r.container == container {
			return r
		}
	}
	return restartPolicy{container: container}
}

// restarts reports whether a container that exited with exitCode is restarted.
func (r restartPolicy) restarts(policy v1.RestartPolicy, exitCode int32) bool {
	if r.policy != nil {
		if action, ok := r.matching(exitCode); ok &&
			(action == v1.ContainerRestartRuleActionRestart || action == v1.ContainerRestartRuleActionRestartAllContainers) {
			return true
		}
		switch *r.policy {
		case v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever:
			policy = v1.RestartPolicy(*r.policy)
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

// allRestart reports whether all containers are restarted together.
func (v *podView) allRestart(status *v1.PodStatus) bool {
	for _, c := range status.Conditions {
		if c.Type == v1.AllContainersRestarting && c.Status == v1.ConditionTrue {
			return true
		}
	}
	for _, r := range v.own {
		statuses := status.ContainerStatuses
		if r.init {
			statuses = status.InitContainerStatuses
		}
		for _, s := range statuses {
			if s.Name != r.container || s.State.Terminated == nil {
				continue
			}
			if action, ok := r.matching(s.State.Terminated.ExitCode); ok && action == v1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

// matching returns the action of the first rule that exitCode matches.
func (r restartPolicy) matching(exitCode int32) (action v1.ContainerRestartRuleAction, ok bool) {
	for _, rule := range r.rules {
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
