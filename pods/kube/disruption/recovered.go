package disruption

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxClockSkew is how much the clocks of a node and of the API server may differ. With a larger difference, a new pod
// may count as an old one, and the workload waits longer than necessary.
const maxClockSkew = time.Minute

// recovered reports whether a workload has recovered from a disruption. The disrupted pod must be ready, with a new
// container. If it was deleted, a pod that was created since must be ready. An older pod does not count, even if it
// was not among the pods before: its labels may have changed, as in a replica that becomes the primary.
func recovered(c *claim, pods []v1.Pod) bool {
	if i := slices.IndexFunc(pods, func(p v1.Pod) bool { return p.UID == c.pod }); i >= 0 && pods[i].DeletionTimestamp == nil {
		return ready(&pods[i]) && containers(&pods[i]) != c.before[c.pod]
	}
	return slices.ContainsFunc(pods, func(p v1.Pod) bool {
		_, existed := c.before[p.UID]
		return !existed && ready(&p) && p.CreationTimestamp.After(c.since.Add(-maxClockSkew))
	})
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

// containersOf returns the container IDs of pods, by UID.
func containersOf(pods []v1.Pod) map[types.UID]string {
	all := make(map[types.UID]string, len(pods))
	for i := range pods {
		all[pods[i].UID] = containers(&pods[i])
	}
	return all
}

// containers returns the joined container IDs of a pod, which change when a container is restarted.
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
