package otlp

import (
	"sync"
	"sync/atomic"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

const (
	maxQueue = 2048 // number of spans
	maxBatch = 512  // spans in a request
)

// queue holds spans until they are sent. When it is full, it drops the oldest.
type queue struct {
	many    chan struct{} // receives when there is a full batch
	dropped atomic.Uint64

	mu    sync.Mutex
	spans []*tracepb.Span
	taken int // number of spans at the front that are being sent
}

// add appends spans.
func (q *queue) add(spans ...*tracepb.Span) {
	q.mu.Lock()
	q.spans = append(q.spans, spans...)
	excess := max(len(q.spans)-maxQueue, 0)
	q.removeLocked(excess)
	full := len(q.spans) >= maxBatch
	q.mu.Unlock()
	q.dropped.Add(uint64(excess))
	if full {
		select {
		case q.many <- struct{}{}:
		default:
		}
	}
}

func (q *queue) removeLocked(n int) {
	clear(q.spans[:n])
	q.spans = q.spans[n:]
	q.taken = max(q.taken-n, 0)
}

// take returns the oldest spans, which stay in the queue until remove.
func (q *queue) take() []*tracepb.Span {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = min(len(q.spans), maxBatch)
	return append([]*tracepb.Span(nil), q.spans[:q.taken]...)
}

// remove removes the spans of the last take that are still in the queue, and returns their number.
func (q *queue) remove() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.taken
	q.removeLocked(n)
	return n
}
