// Package queue is the work queue of the loops of package kube.
package queue

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Queue is a set of pods that a loop must process. It is safe for concurrent use, and Put does not block.
type Queue struct {
	Wake chan struct{} // holds a token while there may be pods

	mu  sync.Mutex
	all map[types.UID]struct{}
}

// New returns an empty queue.
func New() *Queue {
	return &Queue{Wake: make(chan struct{}, 1), all: make(map[types.UID]struct{})}
}

// Put adds pods.
func (q *Queue) Put(uids ...types.UID) {
	if len(uids) == 0 {
		return
	}
	q.mu.Lock()
	for _, uid := range uids {
		q.all[uid] = struct{}{}
	}
	q.mu.Unlock()
	q.Signal()
}

// Signal wakes a loop.
func (q *Queue) Signal() {
	select {
	case q.Wake <- struct{}{}:
	default:
	}
}

// Take returns all pods, sorted, and empties the queue.
func (q *Queue) Take() []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	uids := slices.Sorted(maps.Keys(q.all))
	clear(q.all)
	return uids
}

// TakeFirst removes and returns the pod with the earliest time. It ignores pods for which timeOf returns false.
// timeOf must not use the queue.
func (q *Queue) TakeFirst(timeOf func(types.UID) (at time.Time, ok bool)) (first types.UID, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var least time.Time
	for uid := range q.all {
		at, ok := timeOf(uid)
		if ok && (!found || cmp.Or(at.Compare(least), cmp.Compare(uid, first)) < 0) {
			first, least, found = uid, at, true
		}
	}
	delete(q.all, first)
	return first, found
}

// Each calls do with each pod that is put into the queue, until ctx ends.
func (q *Queue) Each(ctx context.Context, do func(types.UID)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.Wake:
			for _, uid := range q.Take() {
				do(uid)
			}
		}
	}
}
