package kube

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// queue has the pods that a loop has to look at. Adding one twice adds it once, and blocks nobody.
type queue struct {
	wake chan struct{} // holds a token while there may be pods

	mu  sync.Mutex
	all map[types.UID]struct{}
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), all: make(map[types.UID]struct{})}
}

func (q *queue) put(uids ...types.UID) {
	if len(uids) == 0 {
		return
	}
	q.mu.Lock()
	for _, uid := range uids {
		q.all[uid] = struct{}{}
	}
	q.mu.Unlock()
	q.signal()
}

// signal lets a loop look for pods.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns all pods, sorted, and empties the queue.
func (q *queue) take() []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	uids := slices.Sorted(maps.Keys(q.all))
	clear(q.all)
	return uids
}

// takeFirst takes the pod that has the least time of those for which there is one.
func (q *queue) takeFirst(timeOf func(types.UID) (at time.Time, ok bool)) (first types.UID, found bool) {
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

// each calls do with the pods until ctx ends.
func (q *queue) each(ctx context.Context, do func(types.UID)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
			for _, uid := range q.take() {
				do(uid)
			}
		}
	}
}
