package results

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/daeace23/prober/probe"
)

// queue has the unread updates of one reader. For each key that is the newest result, then the
// removal. It grows with the number of keys, not with the number of updates, and is small again
// when all of them are read.
//
// Thousands of probes may put updates at once, when an agent starts. So put waits for no lock: it
// adds to a list, which is merged into the pending updates by the reader, or when it is long.
type queue struct {
	wake chan struct{} // holds a token while there may be something to read

	added    atomic.Pointer[node] // newest first
	unmerged atomic.Int64         // about how many are in added

	mu      sync.Mutex
	pending map[queueKey]*node
	order   []queueKey // keys of pending, by the oldest unread update
	most    int        // longest order since pending was made
}

// manyUnread is from how many keys on an empty queue does not keep the memory for them: a map never
// shrinks.
const manyUnread = 1000

// manyAdded is how many updates are added before they are merged without the reader.
const manyAdded = 100

type queueKey struct {
	kind        probe.Kind
	containerID string
}

// node is an update that is not merged yet, or the unread updates of one key: result, removal, or
// both in this order.
type node struct {
	update          Update
	of              *any  // what the owner of the container belongs to; nil for nothing
	before          *node // that is not merged
	result, removal bool
}

// nodes are not in use. Updates come in bursts, and their garbage would lie between the probes that
// are added at that time.
var nodes = sync.Pool{New: func() any { return new(node) }}

func (n *node) recycle() {
	*n = node{}
	nodes.Put(n)
}

// next returns the update to read next.
func (n *node) next() Update {
	u := n.update
	u.Removed = !n.result
	return u
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), pending: make(map[queueKey]*node)}
}

// put adds an update. Updates of one key are put one after the other.
func (q *queue) put(u Update, of *any) {
	n, before := nodes.Get().(*node), q.added.Load()
	n.update, n.of = u, of
	for n.before = before; !q.added.CompareAndSwap(before, n); n.before = before {
		before = q.added.Load()
	}
	if q.unmerged.Add(1) > manyAdded && q.mu.TryLock() { // else someone else merges
		q.mergeLocked()
		q.mu.Unlock()
	}
	if before == nil { // the reader may have seen that there is none
		q.signal()
	}
}

// mergeLocked merges the added updates into the pending ones.
func (q *queue) mergeLocked() {
	var oldest *node
	count := int64(0)
	for n := q.added.Swap(nil); n != nil; count++ {
		before := n.before
		n.before, oldest = oldest, n
		n = before
	}
	q.unmerged.Add(-count)
	for n := oldest; n != nil; {
		next := n.before
		n.before = nil
		q.mergeOneLocked(n)
		n = next
	}
}

func (q *queue) mergeOneLocked(n *node) {
	key := queueKey{n.update.Kind, n.update.ContainerID}
	p, ok := q.pending[key]
	if !ok {
		q.order = append(q.order, key)
		q.most = max(q.most, len(q.order))
		q.pending[key], p = n, n
	}
	if n.update.Removed {
		p.removal = true
	} else {
		p.result, p.removal = true, false // a result replaces all before it
	}
	if p != n {
		p.update, p.of = n.update, n.of
		n.recycle()
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next waits for an update. ok is false if ctx has ended, or done is closed and there is none.
func (q *queue) next(ctx context.Context, done <-chan struct{}) (u Update, of *any, ok bool) {
	for ended := false; ctx.Err() == nil; {
		if u, of, ok := q.take(); ok || ended {
			return u, of, ok
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		case <-done:
			ended = true // after a last look
		}
	}
	return Update{}, nil, false
}

func (q *queue) take() (u Update, of *any, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, of, ok = q.frontLocked()
	if ok {
		q.popLocked()
	}
	return u, of, ok
}

// offer sends updates to out until ctx ends. An update stays in the queue until it is received,
// so that a newer one may replace it.
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
	u, _, ok := q.frontLocked()
	return u, ok
}

// sent removes u from the queue, unless a newer update has replaced it meanwhile.
func (q *queue) sent(u Update) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if front, _, ok := q.frontLocked(); ok && front == u {
		q.popLocked()
	}
}

// frontLocked returns the update to read next.
func (q *queue) frontLocked() (u Update, of *any, ok bool) {
	q.mergeLocked()
	if len(q.order) == 0 {
		return Update{}, nil, false
	}
	p := q.pending[q.order[0]]
	return p.next(), p.of, true
}

// popLocked removes the update that frontLocked returns.
func (q *queue) popLocked() {
	key := q.order[0]
	p := q.pending[key]
	if p.result && p.removal {
		p.result = false
		return
	}
	delete(q.pending, key)
	p.recycle()
	q.order = q.order[1:]
	if len(q.order) == 0 {
		q.order = nil
		if q.most >= manyUnread {
			q.pending, q.most = make(map[queueKey]*node), 0
		}
	}
}
