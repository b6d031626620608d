package results

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/daeace23/prober/probe"
)

// queue has the unread updates of one reader. For each key it keeps only the newest result, and after it
// the removal. So its size depends on the number of keys, not of updates, and shrinks again when all
// updates are read.
//
// At the start of an agent, thousands of probes may put updates at once. So put takes no lock: it adds to a
// linked list, which the reader merges into the pending updates. If the list is long, put merges it.
type queue struct {
	wake chan struct{} // holds a token while there may be something to read

	added    atomic.Pointer[node] // newest first
	unmerged atomic.Int64         // approximate length of added

	mu      sync.Mutex
	pending map[queueKey]*node
	order   []queueKey // keys of pending, ordered by the oldest unread update
	most    int        // maximum length of order since pending was made
}

// manyUnread is the minimum number of keys for which an empty queue releases its map, because a map never
// shrinks.
const manyUnread = 1000

// manyAdded is the number of added updates above which put merges them.
const manyAdded = 100

type queueKey struct {
	kind        probe.Kind
	containerID string
}

// node is an added update, or the merged unread updates of one key: result, removal, or both in this order.
type node struct {
	update          Update
	parent          *any  // parent of the container's owner; nil if none
	before          *node // next older added node
	result, removal bool
}

// nodes is a pool of unused nodes. Updates come in bursts, and their garbage would fragment the memory of
// probes that are added at the same time.
var nodes = sync.Pool{New: func() any { return new(node) }}

func (n *node) recycle() {
	*n = node{}
	nodes.Put(n)
}

// next returns the next update to read.
func (n *node) next() Update {
	u := n.update
	u.Removed = !n.result
	return u
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), pending: make(map[queueKey]*node)}
}

// put adds an update. Updates of one key must not be put concurrently.
func (q *queue) put(u Update, parent *any) {
	n, before := nodes.Get().(*node), q.added.Load()
	n.update, n.parent = u, parent
	for n.before = before; !q.added.CompareAndSwap(before, n); n.before = before {
		before = q.added.Load()
	}
	if q.unmerged.Add(1) > manyAdded && q.mu.TryLock() { // if the lock is held, another goroutine merges
		q.mergeLocked()
		q.mu.Unlock()
	}
	if before == nil { // the reader may have seen an empty queue
		q.signal()
	}
}

// mergeLocked merges the added updates into pending.
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
		p.result, p.removal = true, false // a result replaces all earlier updates
	}
	if p != n {
		p.update, p.parent = n.update, n.parent
		n.recycle()
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next waits for an update. ok is false if ctx has ended, or if done is closed and the queue is empty.
func (q *queue) next(ctx context.Context, done <-chan struct{}) (u Update, parent *any, ok bool) {
	for ended := false; ctx.Err() == nil; {
		if u, parent, ok := q.take(); ok || ended {
			return u, parent, ok
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		case <-done:
			ended = true // after a last check
		}
	}
	return Update{}, nil, false
}

func (q *queue) take() (u Update, parent *any, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, parent, ok = q.frontLocked()
	if ok {
		q.popLocked()
	}
	return u, parent, ok
}

// offer sends updates to out until ctx ends. An update stays in the queue until it is received, so a newer
// one may replace it.
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

// sent removes u from the queue, unless a newer update has replaced it.
func (q *queue) sent(u Update) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if front, _, ok := q.frontLocked(); ok && front == u {
		q.popLocked()
	}
}

// frontLocked returns the next update to read.
func (q *queue) frontLocked() (u Update, parent *any, ok bool) {
	q.mergeLocked()
	if len(q.order) == 0 {
		return Update{}, nil, false
	}
	p := q.pending[q.order[0]]
	return p.next(), p.parent, true
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
