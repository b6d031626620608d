package pods

import (
	"context"
	"iter"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Feed sends the changes of pods to any number of readers, without waiting for them. The zero value
// is ready to use. It is safe for concurrent use.
type Feed struct {
	mu     sync.Mutex
	queues map[*changeQueue]struct{}
}

// Changed sends pod with its present status, which present returns. It reads the status with the lock held, so
// that concurrent calls do not send an older status last. It sends nothing for a removed pod, which has no
// status.
func (f *Feed) Changed(pod *v1.Pod, present func(types.UID) (v1.PodStatus, bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queues) == 0 {
		return
	}
	if status, ok := present(pod.UID); ok {
		f.sendLocked(Change{Pod: withStatus(pod, status)})
	}
}

// Removed sends that pod was removed.
func (f *Feed) Removed(pod *v1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sendLocked(Change{Pod: pod, Removed: true})
}

func (f *Feed) sendLocked(c Change) {
	for q := range f.queues {
		q.put(c, true)
	}
}

// Watch returns the pods that all returns, and then the changes of all pods until ctx ends. It begins at the first
// read. A slow reader blocks nothing: it gets the newest state of each pod. The pods are read-only.
func (f *Feed) Watch(ctx context.Context, all func() []v1.Pod) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		q := f.attach()
		defer f.detach(q)
		for _, pod := range all() {
			q.put(Change{Pod: &pod}, false)
		}
		for {
			if c, ok := q.next(ctx); !ok || !yield(c) {
				return
			}
		}
	}
}

func (f *Feed) attach() *changeQueue {
	q := &changeQueue{wake: make(chan struct{}, 1), pending: make(map[types.UID]Change)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queues == nil {
		f.queues = make(map[*changeQueue]struct{})
	}
	f.queues[q] = struct{}{}
	return q
}

func (f *Feed) detach(q *changeQueue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.queues, q)
}

// changeQueue holds the newest unread change of each pod.
type changeQueue struct {
	wake chan struct{} // holds a token while there may be something to read

	mu      sync.Mutex
	pending map[types.UID]Change
	order   []types.UID // by the oldest unread change of each pod
}

// put adds c. An unread change of the same pod is replaced if replace is set, and kept otherwise.
func (q *changeQueue) put(c Change, replace bool) {
	q.mu.Lock()
	_, unread := q.pending[c.Pod.UID]
	if !unread {
		q.order = append(q.order, c.Pod.UID)
	}
	if !unread || replace {
		q.pending[c.Pod.UID] = c
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next waits for a change. ok is false at the end of ctx.
func (q *changeQueue) next(ctx context.Context) (c Change, ok bool) {
	for ctx.Err() == nil {
		if c, ok := q.take(); ok {
			return c, true
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
	return Change{}, false
}

func (q *changeQueue) take() (c Change, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return Change{}, false
	}
	uid := q.order[0]
	q.order = q.order[1:]
	c = q.pending[uid]
	delete(q.pending, uid)
	return c, true
}

// withStatus returns a shallow copy of pod with the status. Both pods are read-only.
func withStatus(pod *v1.Pod, status v1.PodStatus) *v1.Pod {
	shown := *pod
	shown.Status = status
	return &shown
}
