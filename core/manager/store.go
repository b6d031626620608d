package manager

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// StatusStore is a [StatusSource] that keeps the statuses of pods in memory, and applies decided
// results to them. The zero value is empty and ready to use; it is safe for concurrent use.
type StatusStore struct {
	// Changed is called after each change of a status, by the goroutine that has made it, with no
	// lock held. Calls for concurrent changes may come in another order. It may be nil, and is
	// set before the store is used.
	Changed func(pod *v1.Pod, status v1.PodStatus)

	mu       sync.RWMutex
	pods     map[types.UID]storedPod
	watchers map[types.UID][]*watcher
}

// watcher is a call of [StatusStore.WatchStatus] that was not stopped.
type watcher struct{ publish func(*v1.PodStatus) }

// storedPod is never modified, only replaced.
type storedPod struct {
	pod    *v1.Pod
	status *v1.PodStatus
}

var _ StatusPublisher = (*StatusStore)(nil)

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

// WatchStatus implements [StatusPublisher].
func (s *StatusStore) WatchStatus(uid types.UID, publish func(*v1.PodStatus)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watcher{publish}
	if s.watchers == nil {
		s.watchers = make(map[types.UID][]*watcher)
	}
	s.watchers[uid] = append(s.watchers[uid], w)
	if p, ok := s.pods[uid]; ok {
		publish(p.status)
	}
	return func() { s.unwatch(uid, w) }
}

func (s *StatusStore) unwatch(uid types.UID, w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[uid] = slices.DeleteFunc(s.watchers[uid], func(o *watcher) bool { return o == w })
	if len(s.watchers[uid]) == 0 {
		delete(s.watchers, uid)
	}
}

// SetPodStatus replaces the status of pod.
func (s *StatusStore) SetPodStatus(pod *v1.Pod, status v1.PodStatus) {
	s.set(storedPod{pod, status.DeepCopy()})
	s.changed(pod, status)
}

func (s *StatusStore) set(p storedPod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(p)
}

func (s *StatusStore) setLocked(p storedPod) {
	if s.pods == nil {
		s.pods = make(map[types.UID]storedPod)
	}
	s.pods[p.pod.UID] = p
	for _, w := range s.watchers[p.pod.UID] {
		w.publish(p.status)
	}
}

// RemovePod removes the status of a pod.
func (s *StatusStore) RemovePod(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
	for _, w := range s.watchers[uid] {
		w.publish(nil)
	}
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
	if p, changed := s.apply(uid, containerID, change); changed {
		s.changed(p.pod, *p.status)
	}
}

func (s *StatusStore) apply(uid types.UID, containerID string, change func(*v1.Pod, *v1.PodStatus, *v1.ContainerStatus) bool) (p storedPod, changed bool) {
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
	s.setLocked(p)
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
