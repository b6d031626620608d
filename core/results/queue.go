package results

import (
	"context"
	"sync"

	"github.com/daeace23/prober/probe"
)

// queue holds, for one reader, the newest unread update of every key. It grows with
// the number of keys, never with the number of updates.
type queue struct {
	wake chan struct{} // holds a token while there may be something to read

	mu      sync.Mutex
	pending map[queueKey]Update
	order   []queueKey // keys in the order of their oldest unread update; may name dropped keys
}

type queueKey struct {
	kind        probe.Kind
	containerID string
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), pending: make(map[queueKey]Update)}
}

func (q *queue) put(u Update) {
	key := queueKey{u.Kind, u.ContainerID}
	q.mu.Lock()
	if _, ok := q.pending[key]; !ok {
		q.order = append(q.order, key)
	}
	q.pending[key] = u
	q.mu.Unlock()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) drop(key queueKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.pending[key]; !ok {
		return
	}
	delete(q.pending, key)
	q.signal()
	if len(q.order) > 2*len(q.pending)+16 { // containers come and go while no one reads
		kept := q.order[:0]
		for _, k := range q.order {
			if _, ok := q.pending[k]; ok {
				kept = append(kept, k)
			}
		}
		q.order = kept
	}
}

// next waits for an update; ok is false when ctx ended.
func (q *queue) next(ctx context.Context) (u Update, ok bool) {
	for {
		if ctx.Err() != nil {
			return Update{}, false
		}
		if u, ok := q.take(); ok {
			return u, true
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
}

func (q *queue) take() (Update, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, ok := q.frontLocked()
	if ok {
		q.popLocked(u)
	}
	return u, ok
}

// offer sends updates to out until ctx ends. An update that finds no reader stays in
// the queue, where a newer one replaces it and drop takes it away.
func (q *queue) offer(ctx context.Context, out chan<- Update) {
	for {
		u, ok := q.front()
		ready := out
		if !ok {
			ready = nil
		}
		select {
		case ready <- u:
			q.sent(u)
		case <-q.wake:
		case <-ctx.Done():
			return
		}
	}
}

func (q *queue) front() (Update, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.frontLocked()
}

// sent takes u off the queue, unless a newer update has replaced it meanwhile.
func (q *queue) sent(u Update) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if front, ok := q.frontLocked(); ok && front == u {
		q.popLocked(u)
	}
}

// frontLocked returns the update to read next.
func (q *queue) frontLocked() (Update, bool) {
	for len(q.order) > 0 {
		if u, ok := q.pending[q.order[0]]; ok {
			return u, true
		}
		q.order = q.order[1:]
	}
	q.order = nil
	return Update{}, false
}

// popLocked takes u, which is the front, off the queue.
func (q *queue) popLocked(u Update) {
	delete(q.pending, queueKey{u.Kind, u.ContainerID})
	q.order = q.order[1:]
}
