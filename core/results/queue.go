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
	for len(q.order) > 0 {
		key := q.order[0]
		q.order = q.order[1:]
		if u, ok := q.pending[key]; ok {
			delete(q.pending, key)
			return u, true
		}
	}
	q.order = nil
	return Update{}, false
}
