package kube

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods/kube/conditions"
)

// prefix begins the names of all annotations and conditions of prober.
const prefix = "prober.dev/"

// trim is the transform of the informer. It copies the fields of a pod that the agent needs. Of a pod without the
// annotation, it keeps only prober's gate and conditions. Objects that are not pods are returned unchanged.
func trim(object any) (any, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return object, nil
	}
	if _, ok := pod.Annotations[declared.Annotation]; ok {
		return trimmed(pod), nil
	}
	kept := identity(pod)
	if isGated(pod) {
		kept.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: conditions.Ready}}
	}
	kept.DeletionTimestamp = pod.DeletionTimestamp
	kept.Status.Phase, kept.Status.Conditions = pod.Status.Phase, publishedConditions(pod)
	return kept, nil
}

// identity returns a pod with what identifies an object.
func identity(pod *v1.Pod) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Generation: pod.Generation,
	}}
}

// trimmed returns a copy of a pod with the fields that probes need.
func trimmed(pod *v1.Pod) *v1.Pod {
	kept := identity(pod)
	kept.Labels, kept.OwnerReferences = pod.Labels, pod.OwnerReferences
	kept.DeletionTimestamp, kept.DeletionGracePeriodSeconds = pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds
	kept.CreationTimestamp = pod.CreationTimestamp
	kept.Annotations = make(map[string]string)
	for name, value := range pod.Annotations {
		if strings.HasPrefix(name, prefix) || name == v1.MirrorPodAnnotationKey {
			kept.Annotations[name] = value
		}
	}
	kept.Spec = v1.PodSpec{
		NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork, RestartPolicy: pod.Spec.RestartPolicy,
		ReadinessGates: pod.Spec.ReadinessGates, TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
		Containers: trimContainers(pod.Spec.Containers), InitContainers: trimContainers(pod.Spec.InitContainers),
	}
	kept.Status = pod.Status
	kept.Status.ContainerStatuses = trimStatuses(pod.Status.ContainerStatuses)
	kept.Status.InitContainerStatuses = trimStatuses(pod.Status.InitContainerStatuses)
	kept.Status.EphemeralContainerStatuses, kept.Status.ResourceClaimStatuses = nil, nil
	return kept
}

// kubeletStartup replaces the startup probe in the spec of a container: only its presence matters.
var kubeletStartup = &v1.Probe{}

// trimContainers keeps the fields that probes, hooks and restarts depend on. It drops the kubelet's probes,
// except for the presence of a startup probe.
func trimContainers(all []v1.Container) []v1.Container {
	kept := make([]v1.Container, len(all))
	for i := range all {
		c := &all[i]
		kept[i] = v1.Container{
			Name: c.Name, Ports: c.Ports, Env: literals(c.Env), Lifecycle: c.Lifecycle,
			RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules,
		}
		if c.StartupProbe != nil {
			kept[i].StartupProbe = kubeletStartup
		}
	}
	return kept
}

// literals returns the environment variables with their literal values. Variables with a valueFrom are empty.
func literals(env []v1.EnvVar) []v1.EnvVar {
	kept := make([]v1.EnvVar, len(env))
	for i := range env {
		kept[i] = v1.EnvVar{Name: env[i].Name, Value: env[i].Value}
	}
	return kept
}

func trimStatuses(all []v1.ContainerStatus) []v1.ContainerStatus {
	kept := make([]v1.ContainerStatus, len(all))
	for i := range all {
		c := &all[i]
		kept[i] = v1.ContainerStatus{
			Name: c.Name, ContainerID: c.ContainerID, Ready: c.Ready, Started: c.Started, RestartCount: c.RestartCount,
			State: c.State, LastTerminationState: c.LastTerminationState,
		}
	}
	return kept
}

// withoutKubeletProbes returns a trimmed pod without the probes of the kubelet, and without its status.
func withoutKubeletProbes(pod *v1.Pod) *v1.Pod {
	next := *pod
	next.Status = v1.PodStatus{}
	strip := func(all []v1.Container) []v1.Container {
		kept := make([]v1.Container, len(all))
		copy(kept, all)
		for i := range kept {
			kept[i].StartupProbe, kept[i].ReadinessProbe, kept[i].LivenessProbe = nil, nil, nil
		}
		return kept
	}
	next.Spec.Containers, next.Spec.InitContainers = strip(pod.Spec.Containers), strip(pod.Spec.InitContainers)
	return &next
}
