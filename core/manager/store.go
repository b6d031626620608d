package manager

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// StatusStore is a [StatusSource] that keeps the statuses of pods in memory, and applies decided results to
// them. The zero value is empty and ready to use. It is safe for concurrent use.
type StatusStore struct {
	// Changed is called after each change of a status, by the goroutine that made the change, with no lock
	// held. Calls for concurrent changes may be out of order. Changed may be nil. It must be set before the
	// store is used.
	Changed func(pod *v1.Pod, status v1.PodStatus)

	mu   sync.RWMutex
	pods map[types.UID]*storedPod
}

// storedPod is a pod with a status or watchers.
type storedPod struct {
	store    *StatusStore
	uid      types.UID
	pod      *v1.Pod
	status   *keptStatus // nil without a status
	watchers *watcher    // head of a linked list
}

// watcher is an active call of [StatusStore.WatchStatus].
type watcher struct {
	publish func(*v1.PodStatus)
	pod     *storedPod
	next    *watcher
}

var _ StatusPublisher = (*StatusStore)(nil)

// PodStatus implements [StatusSource]. The result is read-only. It is usually built for each call, about 1
// KB for two containers. A manager that watches the store does not call it.
func (s *StatusStore) PodStatus(uid types.UID) (v1.PodStatus, bool) {
	kept := s.storedStatus(uid)
	if kept == nil {
		return v1.PodStatus{}, false
	}
	return *kept.status(), true
}

func (s *StatusStore) storedStatus(uid types.UID) *keptStatus {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if p := s.pods[uid]; p != nil {
		return p.status
	}
	return nil
}

// WatchStatus implements [StatusPublisher].
func (s *StatusStore) WatchStatus(uid types.UID, publish func(*v1.PodStatus)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.podLocked(uid)
	w := &watcher{publish: publish, pod: p}
	last := &p.watchers
	for *last != nil {
		last = &(*last).next
	}
	*last = w
	if p.status != nil {
		publish(p.status.status())
	}
	return w.stop
}

func (w *watcher) stop() {
	s := w.pod.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := &w.pod.watchers; *at != nil; at = &(*at).next {
		if *at == w {
			*at = w.next
			break
		}
	}
	w.pod.forgetLocked()
}

// podLocked returns the pod with the given UID. The caller must give a new pod a status or a watcher, or
// call forgetLocked.
func (s *StatusStore) podLocked(uid types.UID) *storedPod {
	p := s.pods[uid]
	if p == nil {
		if s.pods == nil {
			s.pods = make(map[types.UID]*storedPod)
		}
		p = &storedPod{store: s, uid: uid}
		s.pods[uid] = p
	}
	return p
}

// forgetLocked removes p if it has neither a status nor watchers.
func (p *storedPod) forgetLocked() {
	if p.status == nil && p.watchers == nil && p.store.pods[p.uid] == p {
		delete(p.store.pods, p.uid)
	}
}

// SetPodStatus replaces the status of pod.
func (s *StatusStore) SetPodStatus(pod *v1.Pod, status v1.PodStatus) {
	kept, published := compact(&status)
	s.set(pod, kept, published)
	s.changed(pod, status)
}

func (s *StatusStore) set(pod *v1.Pod, kept *keptStatus, published *v1.PodStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.podLocked(pod.UID)
	p.pod = pod
	p.setLocked(kept, published)
}

func (p *storedPod) setLocked(kept *keptStatus, published *v1.PodStatus) {
	p.status = kept
	for w := p.watchers; w != nil; w = w.next {
		w.publish(published)
	}
}

// RemovePod removes the status of a pod.
func (s *StatusStore) RemovePod(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[uid]; p != nil {
		p.pod = nil
		p.setLocked(nil, nil)
		p.forgetLocked()
	}
}

// SetContainerReadiness sets Ready of a container, and the conditions Ready and ContainersReady of its pod.
// It does nothing if the pod or container ID is unknown, or if nothing changes.
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

// SetContainerStartup sets Started of a container. It does nothing if the pod or container ID is unknown,
// or if nothing changes. From unset to false is a change.
func (s *StatusStore) SetContainerStartup(uid types.UID, containerID string, started bool) {
	s.update(uid, containerID, func(_ *v1.Pod, _ *v1.PodStatus, c *v1.ContainerStatus) bool {
		if c.Started != nil && *c.Started == started {
			return false
		}
		c.Started = &started
		return true
	})
}

// update calls change with a copy of the status of a pod, and stores the copy if change returns true.
func (s *StatusStore) update(uid types.UID, containerID string, change func(*v1.Pod, *v1.PodStatus, *v1.ContainerStatus) bool) {
	if pod, status := s.apply(uid, containerID, change); status != nil {
		s.changed(pod, *status)
	}
}

// apply returns the new status; nil if it has not changed.
func (s *StatusStore) apply(uid types.UID, containerID string, change func(*v1.Pod, *v1.PodStatus, *v1.ContainerStatus) bool) (*v1.Pod, *v1.PodStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil || p.status == nil {
		return nil, nil
	}
	status := p.status.copy()
	c := statusByID(status, containerID)
	if c == nil || !change(p.pod, status, c) {
		return nil, nil
	}
	kept, published := compact(status)
	p.setLocked(kept, published)
	return p.pod, status
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

// setCondition replaces the condition of c's type, or adds it. The last transition time changes only if the
// status of the condition changes.
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
