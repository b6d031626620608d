package manager

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// StatusStore is a ready-made [StatusSource]: it holds the statuses of pods in memory
// and applies what probes decide to them. The zero value is empty and ready to use; it
// is safe for concurrent use.
type StatusStore struct {
	// Changed, when set before the store is used, is called after each change of a
	// pod's status, without a lock held.
	Changed func(pod *v1.Pod, status v1.PodStatus)

	mu   sync.RWMutex
	pods map[types.UID]storedPod
}

// storedPod is never modified, only replaced.
type storedPod struct {
	pod    *v1.Pod
	status *v1.PodStatus
}

var _ StatusSource = (*StatusStore)(nil)

// PodStatus implements [StatusSource].
func (s *StatusStore) PodStatus(uid types.UID) (v1.PodStatus, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, ok := s.pods[uid]
	if !ok {
		return v1.PodStatus{}, false
	}
	return *p.status, true
}

// SetPodStatus replaces the status of pod.
func (s *StatusStore) SetPodStatus(pod *v1.Pod, status v1.PodStatus) {
	s.mu.Lock()
	if s.pods == nil {
		s.pods = make(map[types.UID]storedPod)
	}
	s.pods[pod.UID] = storedPod{pod, status.DeepCopy()}
	s.mu.Unlock()
	s.tell(pod, status)
}

// RemovePod forgets a pod.
func (s *StatusStore) RemovePod(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}

// SetContainerReadiness sets Ready of a container, and the pod's Ready and
// ContainersReady conditions. It does nothing for a pod or container ID that the store
// does not know, or when nothing changes.
func (s *StatusStore) SetContainerReadiness(uid types.UID, containerID string, ready bool) {
	s.update(uid, containerID, func(pod *v1.Pod, status *v1.PodStatus, c *v1.ContainerStatus) bool {
		if c.Ready == ready {
			return false
		}
		c.Ready = ready
		all := slices.Concat(status.InitContainerStatuses, status.ContainerStatuses)
		setCondition(status, PodReadyCondition(pod, status.Conditions, all, status.Phase))
		setCondition(status, ContainersReadyCondition(pod, all, status.Phase))
		return true
	})
}

// SetContainerStartup sets Started of a container. It does nothing for a pod or
// container ID that the store does not know, or when nothing changes; from unset to
// false is a change.
func (s *StatusStore) SetContainerStartup(uid types.UID, containerID string, started bool) {
	s.update(uid, containerID, func(_ *v1.Pod, _ *v1.PodStatus, c *v1.ContainerStatus) bool {
		if c.Started != nil && *c.Started == started {
			return false
		}
		c.Started = &started
		return true
	})
}

// update lets change work on a copy of a pod's status and keeps it if it reports true.
func (s *StatusStore) update(uid types.UID, containerID string, change func(*v1.Pod, *v1.PodStatus, *v1.ContainerStatus) bool) {
	s.mu.Lock()
	p, ok := s.pods[uid]
	if !ok {
		s.mu.Unlock()
		return
	}
	status := p.status.DeepCopy()
	c := statusByID(status, containerID)
	if c == nil || !change(p.pod, status, c) {
		s.mu.Unlock()
		return
	}
	s.pods[uid] = storedPod{p.pod, status}
	s.mu.Unlock()
	s.tell(p.pod, *status)
}

func (s *StatusStore) tell(pod *v1.Pod, status v1.PodStatus) {
	if s.Changed != nil {
		s.Changed(pod, status)
	}
}

func statusByID(status *v1.PodStatus, id string) *v1.ContainerStatus {
	for _, list := range [...][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			if list[i].ContainerID == id {
				return &list[i]
			}
		}
	}
	return nil
}

// setCondition replaces the condition of c's type, or adds it. The time of the last
// transition moves only when the condition's status does.
func setCondition(status *v1.PodStatus, c v1.PodCondition) {
	c.LastTransitionTime = metav1.Now()
	old := conditionOf(status.Conditions, c.Type)
	if old == nil {
		status.Conditions = append(status.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
}
