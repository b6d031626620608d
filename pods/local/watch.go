package local

import (
	"context"
	"iter"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// watchers sends changes of pods to any number of readers, and waits for none of them.
type watchers struct {
	mu     sync.Mutex
	queues map[*changeQueue]struct{}
}

// changed sends the present status of pod. It reads the status with the lock held: of two
// goroutines that send changes, the second must not send the older one. A removed pod has no
// status, and nothing is sent.
func (w *watchers) changed(pod *v1.Pod, present func(types.UID) (v1.PodStatus, bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if status, ok := present(pod.UID); ok {
		w.putLocked(Change{Pod: withStatus(pod, status)})
	}
}

func (w *watchers) removed(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.putLocked(Change{Pod: pod, Removed: true})
}

func (w *watchers) putLocked(c Change) {
	for q := range w.queues {
		q.put(c)
	}
}

func (w *watchers) attach() *changeQueue {
	q := &changeQueue{wake: make(chan struct{}, 1), pending: make(map[types.UID]Change)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queues == nil {
		w.queues = make(map[*changeQueue]struct{})
	}
	w.queues[q] = struct{}{}
	return q
}

func (w *watchers) detach(q *changeQueue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.queues, q)
}

// read returns the changes of q. It detaches q when the reader stops or ctx ends.
func (w *watchers) read(ctx context.Context, q *changeQueue) iter.Seq[Change] {
	stop := context.AfterFunc(ctx, func() { w.detach(q) })
	return func(yield func(Change) bool) {
		defer stop()
		defer w.detach(q)
		for {
			c, ok := q.next(ctx)
			if !ok || !yield(c) {
				return
			}
		}
	}
}

// changeQueue holds the newest unread change of each pod.
type changeQueue struct {
	wake chan struct{} // holds a token while there may be something to read

	mu      sync.Mutex
	pending map[types.UID]Change
	order   []types.UID // of the oldest unread change of each pod
}

func (q *changeQueue) put(c Change) {
	q.mu.Lock()
	if _, ok := q.pending[c.Pod.UID]; !ok {
		q.order = append(q.order, c.Pod.UID)
	}
	q.pending[c.Pod.UID] = c
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// putOlder puts c unless a newer change of its pod waits.
func (q *changeQueue) putOlder(c Change) {
	q.mu.Lock()
	_, newer := q.pending[c.Pod.UID]
	if !newer {
		q.pending[c.Pod.UID] = c
		q.order = append(q.order, c.Pod.UID)
	}
	q.mu.Unlock()
}

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
