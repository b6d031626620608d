package disruption

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// recovered reports whether a workload has recovered from a disruption: the disrupted pod is ready, with
// another container than before, or a pod is that did not exist before.
func recovered(c *claim, pods []v1.Pod) bool {
	for i := range pods {
		p := &pods[i]
		if !ready(p) {
			continue
		}
		before, existed := c.before[p.UID]
		if !existed || p.UID == c.pod && containers(p) != before {
			return true
		}
	}
	return false
}

func ready(pod *v1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// containersOf returns the containers of pods.
func containersOf(pods []v1.Pod) map[types.UID]string {
	all := make(map[types.UID]string, len(pods))
	for i := range pods {
		all[pods[i].UID] = containers(&pods[i])
	}
	return all
}

// containers returns the IDs of the containers of a pod, which change when one is started again.
func containers(pod *v1.Pod) string {
	var ids strings.Builder
	for _, list := range [...][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			ids.WriteString(list[i].ContainerID)
			ids.WriteByte(' ')
		}
	}
	return ids.String()
}
