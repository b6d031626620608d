package disruption

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// clocks is how much the clocks of a node and of the API server may differ. If it is more, a new pod counts as an old one,
// and the workload waits longer than it had to.
const clocks = time.Minute

// recovered reports whether a workload has recovered from a disruption: the disrupted pod is ready, with another
// container than before. If there is no such pod any more, one must be ready that was created since: one that is not
// among those before may have got other labels, as the replica that becomes the primary does.
func recovered(c *claim, pods []v1.Pod) bool {
	if i := slices.IndexFunc(pods, func(p v1.Pod) bool { return p.UID == c.pod }); i >= 0 && pods[i].DeletionTimestamp == nil {
		return ready(&pods[i]) && containers(&pods[i]) != c.before[c.pod]
	}
	return slices.ContainsFunc(pods, func(p v1.Pod) bool {
		_, existed := c.before[p.UID]
		return !existed && ready(&p) && p.CreationTimestamp.After(c.since.Add(-clocks))
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
