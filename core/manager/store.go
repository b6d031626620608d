package manager

import (
	"hash/maphash"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// StatusStore is a [StatusSource] that keeps the statuses of pods in memory, and applies decided
// results to them. The zero value is empty and ready to use; it is safe for concurrent use.
type StatusStore struct {
	// Changed is called after each change of a status, with no lock held. It may be nil, and
	// is set before the store is used.
	Changed func(pod *v1.Pod, status v1.PodStatus)

	shards [storeShards]storeShard
}

// storeShards is the number of shards. Every tick reads the store: with one lock, a new status
// would wait for all ticks that are due at that moment.
const storeShards = 32

type storeShard struct {
	mu   sync.Mutex
	pods map[types.UID]storedPod
}

func (s *StatusStore) shard(uid types.UID) *storeShard {
	return &s.shards[maphash.String(seed, string(uid))%storeShards]
}

// storedPod is never modified, only replaced.
type storedPod struct {
	pod    *v1.Pod
	status *v1.PodStatus
}

var _ StatusSource = (*StatusStore)(nil)

// PodStatus implements [StatusSource].
func (s *StatusStore) PodStatus(uid types.UID) (v1.PodStatus, bool) {
	status, ok := s.podStatus(uid)
	if !ok {
		return v1.PodStatus{}, false
	}
	return *status, true
}

// podStatus is PodStatus without a copy.
func (s *StatusStore) podStatus(uid types.UID) (*v1.PodStatus, bool) {
	shard := s.shard(uid)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	p, ok := shard.pods[uid]
	return p.status, ok
}

// SetPodStatus replaces the status of pod.
func (s *StatusStore) SetPodStatus(pod *v1.Pod, status v1.PodStatus) {
	shard := s.shard(pod.UID)
	shard.mu.Lock()
	if shard.pods == nil {
		shard.pods = make(map[types.UID]storedPod)
	}
	shard.pods[pod.UID] = storedPod{pod, status.DeepCopy()}
	shard.mu.Unlock()
	s.changed(pod, status)
}

// RemovePod removes the status of a pod.
func (s *StatusStore) RemovePod(uid types.UID) {
	shard := s.shard(uid)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	delete(shard.pods, uid)
}

// SetContainerReadiness sets Ready of a container, and the conditions Ready and ContainersReady
// of its pod. It does nothing for an unknown pod or container ID, or when nothing changes.
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

// SetContainerStartup sets Started of a container. It does nothing for an unknown pod or
// container ID, or when nothing changes. From unset to false is a change.
func (s *StatusStore) SetContainerStartup(uid types.UID, containerID string, started bool) {
	s.update(uid, containerID, func(_ *v1.Pod, _ *v1.PodStatus, c *v1.ContainerStatus) bool {
		if c.Started != nil && *c.Started == started {
			return false
		}
		c.Started = &started
		return true
	})
}

// update calls change with a copy of the status of a pod, and stores the copy if change reports
// true.
func (s *StatusStore) update(uid types.UID, containerID string, change func(*v1.Pod, *v1.PodStatus, *v1.ContainerStatus) bool) {
	if p, changed := s.shard(uid).update(uid, containerID, change); changed {
		s.changed(p.pod, *p.status)
	}
}

func (s *storeShard) update(uid types.UID, containerID string, change func(*v1.Pod, *v1.PodStatus, *v1.ContainerStatus) bool) (p storedPod, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pods[uid]
	if !ok {
		return p, false
	}
	p.status = p.status.DeepCopy()
	c := statusByID(p.status, containerID)
	if c == nil || !change(p.pod, p.status, c) {
		return p, false
	}
	s.pods[uid] = p
	return p, true
}

func (s *StatusStore) changed(pod *v1.Pod, status v1.PodStatus) {
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

// setCondition replaces the condition of c's type, or adds it. The time of the last transition
// changes only with the status of the condition.
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
