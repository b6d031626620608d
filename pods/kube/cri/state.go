package cri

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/daeace23/prober/internal/clip"
)

// Labels that the kubelet gives to its containers.
const (
	labelUID       = "io.kubernetes.pod.uid"
	labelNamespace = "io.kubernetes.pod.namespace"
	labelPod       = "io.kubernetes.pod.name"
	labelContainer = "io.kubernetes.container.name"
)

// Limits of the runtime's responses.
const (
	maxContainers = 10_000
	maxText       = 256 // bytes of an ID, a label or a reason
)

// key names a container of a pod.
type key struct {
	uid  types.UID
	name string
}

// state is a snapshot of the containers of the node. It is read-only once it is published.
type state struct {
	all    map[string]Container // by ID without scheme
	newest map[key]Container    // newest started instance of each container
}

// stateOf returns the state with the given containers.
func stateOf(all map[string]Container) *state {
	s := &state{all: all, newest: make(map[key]Container, len(all))}
	for _, c := range all {
		if !c.Running && !c.Exited {
			continue
		}
		k := key{c.PodUID, c.Name}
		if other, ok := s.newest[k]; !ok || c.newer(&other) {
			s.newest[k] = c
		}
	}
	return s
}

// newer reports whether c was started after o, another container of the same name. It compares the attempt
// number first, since a clock may have been set back.
func (c *Container) newer(o *Container) bool {
	return cmp.Or(cmp.Compare(c.Restarts, o.Restarts), cmp.Compare(c.created, o.created), cmp.Compare(c.ID, o.ID)) > 0
}

// changedSince returns the pods whose newest containers differ between old and s.
func (s *state) changedSince(old *state) map[types.UID]bool {
	pods := make(map[types.UID]bool)
	for k, c := range s.newest {
		if before, ok := old.newest[k]; !ok || before != c {
			pods[k.uid] = true
		}
	}
	for k := range old.newest {
		if _, ok := s.newest[k]; !ok {
			pods[k.uid] = true
		}
	}
	return pods
}

// containerOf returns the identity of a container from an item of a list; false if it is not a container of a pod.
func containerOf(scheme string, item *runtime.Container) (Container, bool) {
	labels, meta := item.GetLabels(), item.GetMetadata()
	c := Container{
		ID: scheme + "://" + item.GetId(), PodUID: types.UID(labels[labelUID]), Namespace: labels[labelNamespace], Pod: labels[labelPod],
		Name: labels[labelContainer], Restarts: int32(min(meta.GetAttempt(), 1<<31-1)), SandboxID: item.GetPodSandboxId(), created: item.GetCreatedAt(),
	}
	if item.GetId() == "" || c.PodUID == "" || c.Name == "" {
		return Container{}, false
	}
	for _, text := range []string{c.ID, string(c.PodUID), c.Namespace, c.Pod, c.Name, c.SandboxID} {
		if len(text) > maxText {
			return Container{}, false
		}
	}
	return c, true
}

// withDetails returns c with the state and the times of status.
func (c Container) withDetails(status *runtime.ContainerStatus) Container {
	c.Running, c.Exited = false, false
	switch status.GetState() {
	case runtime.ContainerState_CONTAINER_RUNNING:
		c.Running = true
		c.StartedAt = timeOf(status.GetStartedAt())
	case runtime.ContainerState_CONTAINER_EXITED:
		c.Exited = true
		c.StartedAt, c.FinishedAt = timeOf(status.GetStartedAt()), timeOf(status.GetFinishedAt())
		c.ExitCode = status.GetExitCode()
		c.Reason = clip.Bytes(status.GetReason(), maxText)
	}
	return c
}

// hasState reports whether c is in a state of the runtime. It returns true for the state unknown.
func (c *Container) hasState(s runtime.ContainerState) bool {
	switch s {
	case runtime.ContainerState_CONTAINER_CREATED:
		return !c.Running && !c.Exited
	case runtime.ContainerState_CONTAINER_RUNNING:
		return c.Running
	case runtime.ContainerState_CONTAINER_EXITED:
		return c.Exited
	default: // unknown: keep the known state
		return true
	}
}

func timeOf(nanoseconds int64) time.Time {
	if nanoseconds <= 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}
