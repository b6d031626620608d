package local

import (
	"context"
	"iter"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/pods"
)

// Watch returns the changes of all pods from the first read until ctx ends, beginning with their
// present state. A slow reader blocks nothing: it gets the newest state of each pod. The pods are
// read-only.
func (p *Pods) Watch(ctx context.Context) iter.Seq[pods.Change] {
	return func(yield func(pods.Change) bool) {
		q := p.watch.attach()
		defer p.watch.detach(q)
		for _, pod := range p.Pods() {
			q.put(pods.Change{Pod: &pod}, false)
		}
		for {
			if c, ok := q.next(ctx); !ok || !yield(c) {
				return
			}
		}
	}
}

// watchers sends the changes of pods to any number of readers, and waits for none of them.
type watchers struct {
	mu     sync.Mutex
	queues map[*changeQueue]struct{}
}

// changed sends the present status of pod. It reads the status with the lock held: of two
// goroutines that send changes, the second must not send the older status. A removed pod has no
// status, and nothing is sent.
func (w *watchers) changed(pod *v1.Pod, present func(types.UID) (v1.PodStatus, bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queues) == 0 {
		return
	}
	if status, ok := present(pod.UID); ok {
		w.sendLocked(pods.Change{Pod: withStatus(pod, status)})
	}
}

func (w *watchers) removed(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sendLocked(pods.Change{Pod: pod, Removed: true})
}

func (w *watchers) sendLocked(c pods.Change) {
	for q := range w.queues {
		q.put(c, true)
	}
}

func (w *watchers) attach() *changeQueue {
	q := &changeQueue{wake: make(chan struct{}, 1), pending: make(map[types.UID]pods.Change)}
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

// changeQueue holds the newest unread change of each pod.
type changeQueue struct {
	wake chan struct{} // holds a token while there may be something to read

	mu      sync.Mutex
	pending map[types.UID]pods.Change
	order   []types.UID // by the oldest unread change of each pod
}

// put adds c. An unread change of the same pod is replaced if replace is set, and kept otherwise.
func (q *changeQueue) put(c pods.Change, replace bool) {
	q.mu.Lock()
	_, unread := q.pending[c.Pod.UID]
	if !unread {
		q.order = append(q.order, c.Pod.UID)
	}
	if !unread || replace {
		q.pending[c.Pod.UID] = c
	}
	q.mu.Unlock()
	wake(q.wake)
}

// wake puts a token into ch if there is none.
func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// next waits for a change. ok is false at the end of ctx.
func (q *changeQueue) next(ctx context.Context) (c pods.Change, ok bool) {
	for ctx.Err() == nil {
		if c, ok := q.take(); ok {
			return c, true
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
	return pods.Change{}, false
}

func (q *changeQueue) take() (c pods.Change, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return pods.Change{}, false
	}
	uid := q.order[0]
	q.order = q.order[1:]
	c = q.pending[uid]
	delete(q.pending, uid)
	return c, true
}
