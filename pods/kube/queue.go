package kube

import (
	"context"
	"maps"
	"slices"
	"sync"

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

// next waits for a pod, and takes it. ok is false at the end of ctx.
func (q *queue) next(ctx context.Context) (uid types.UID, ok bool) {
	for {
		select {
		case <-ctx.Done():
			return "", false
		case <-q.wake:
		}
		uids := q.take()
		if len(uids) > 0 {
			q.put(uids[1:]...)
			return uids[0], true
		}
	}
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
