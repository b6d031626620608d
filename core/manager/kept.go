package manager

import (
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keptStatus stores a v1.PodStatus in a third of the memory. It has the fields that agents other than the
// kubelet set. A status with other fields is kept unchanged in whole. It is read-only.
type keptStatus struct {
	whole      *v1.PodStatus // if not nil, the other fields are empty
	phase      v1.PodPhase
	podIP      string
	onlyIP     bool         // PodIPs contains podIP only
	start      *metav1.Time // StartTime
	conditions []v1.PodCondition
	containers []keptContainer // the init containers come last
	inits      uint16
}

// keptContainer stores a v1.ContainerStatus in the same way.
type keptContainer struct {
	name, id, image, imageID string
	since                    metav1.Time        // of a running container
	state                    *v1.ContainerState // nil for a running container
	last                     *v1.ContainerState // LastTerminationState; nil for a zero one
	restarts                 int32
	ready, known, started    bool // started is valid if known is set
}

// compact returns the compact form of s, and a copy to publish.
func compact(s *v1.PodStatus) (kept *keptStatus, published *v1.PodStatus) {
	kept = &keptStatus{
		phase: s.Phase, podIP: s.PodIP, onlyIP: len(s.PodIPs) == 1, start: s.StartTime.DeepCopy(),
		conditions: slices.Clone(s.Conditions), inits: uint16(len(s.InitContainerStatuses)),
		containers: make([]keptContainer, 0, len(s.ContainerStatuses)+len(s.InitContainerStatuses)),
	}
	for _, list := range [...][]v1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses} {
		for i := range list {
			kept.containers = append(kept.containers, keepContainer(&list[i]))
		}
	}
	if published = kept.status(); !reflect.DeepEqual(published, s) {
		published = s.DeepCopy()
		kept = &keptStatus{whole: published}
	}
	return kept, published
}

func keepContainer(c *v1.ContainerStatus) keptContainer {
	kept := keptContainer{name: c.Name, id: c.ContainerID, image: c.Image, imageID: c.ImageID, restarts: c.RestartCount, ready: c.Ready}
	if c.Started != nil {
		kept.known, kept.started = true, *c.Started
	}
	if running := c.State.Running; running != nil {
		kept.since = running.StartedAt
	} else {
		kept.state = c.State.DeepCopy()
	}
	if c.LastTerminationState != (v1.ContainerState{}) {
		kept.last = c.LastTerminationState.DeepCopy()
	}
	return kept
}

// status returns the status, which must not be modified.
func (s *keptStatus) status() *v1.PodStatus {
	if s.whole != nil {
		return s.whole
	}
	regular := len(s.containers) - int(s.inits)
	status := &v1.PodStatus{
		Phase: s.phase, PodIP: s.podIP, StartTime: s.start.DeepCopy(), Conditions: slices.Clone(s.conditions),
		ContainerStatuses: statuses(s.containers[:regular]), InitContainerStatuses: statuses(s.containers[regular:]),
	}
	if s.onlyIP {
		status.PodIPs = []v1.PodIP{{IP: s.podIP}}
	}
	return status
}

// copy returns a copy of the status, which the caller may modify.
func (s *keptStatus) copy() *v1.PodStatus {
	if s.whole != nil {
		return s.whole.DeepCopy()
	}
	return s.status()
}

func statuses(kept []keptContainer) (all []v1.ContainerStatus) {
	if len(kept) == 0 {
		return nil
	}
	all = make([]v1.ContainerStatus, len(kept))
	for i := range kept {
		kept[i].into(&all[i])
	}
	return all
}

func (c *keptContainer) into(out *v1.ContainerStatus) {
	out.Name, out.ContainerID, out.Image, out.ImageID, out.RestartCount, out.Ready = c.name, c.id, c.image, c.imageID, c.restarts, c.ready
	if c.known {
		out.Started = new(c.started)
	}
	if c.state != nil {
		c.state.DeepCopyInto(&out.State)
	} else {
		out.State.Running = &v1.ContainerStateRunning{StartedAt: c.since}
	}
	if c.last != nil {
		c.last.DeepCopyInto(&out.LastTerminationState)
	}
}
