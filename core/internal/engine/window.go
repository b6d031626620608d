package engine

import "time"

// A tick may come within a window after its due time, as a timer of the Linux kernel with slack. So a
// shard wakes the process once for a batch of workers whose windows overlap, instead of once for each.
// The batch is run at the last due time within all of these windows: a worker alone is exact.

// DefaultWindow is the longest window. A window is a hundredth of the period at most.
const DefaultWindow = 10 * time.Millisecond

// moment is when a worker may be run: the due time, as in [schedule], and in the lowest bits the size
// of the window that follows it. Moments are ordered by their due times.
type moment int64

const (
	sizeBits = 3
	maxSize  = 1<<sizeBits - 1 // of the longest window; each size below has half the window, and 0 has none
	// lastDue is the last due time of a moment, 36 years after the start: one before never.
	lastDue = int64(never)>>sizeBits - 1
)

// momentOf returns the moment of a due time, with the window of a size.
func momentOf(due, size int64) moment { return moment(min(due, lastDue)<<sizeBits | size) }

func (m moment) due() int64 { return int64(m) >> sizeBits }

// latest returns the end of the window of m.
func (s *schedule) latest(m moment) int64 { return m.due() + s.window(int64(m)&maxSize) }

// window returns the window of a size.
func (s *schedule) window(size int64) int64 {
	if size == 0 {
		return 0
	}
	return s.longestWindow >> (maxSize - size)
}

// size returns the size of the window of a period.
func (s *schedule) size(period time.Duration) (size int64) {
	most := int64(period) / 100
	for size = maxSize; size > 0 && s.window(size) > most; size-- {
	}
	return size
}

// planLocked sets when the next workers are to be run: all that are due by then, none of them after
// its window. That is the last due time within the windows of all that are due before it.
func (s *shard) planLocked() {
	switch {
	case len(s.heap) == 0:
		s.batch, s.limit = never, never
		return
	case s.batch <= s.limit && s.heap[0].moment.due() <= s.batch:
		return // the plan stands
	}
	b := batch{schedule: s.schedule, heap: s.heap, limit: s.schedule.latest(s.heap[0].moment)}
	for {
		b.last, b.least = 0, never
		b.visit(0)
		if b.least >= b.limit {
			break
		}
		b.limit = b.least
	}
	s.batch, s.limit = b.last, b.limit
}

// advance runs the next batch now, with the workers of it that are due already.
func (s *shard) advance() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.schedule.since(time.Now())
	if len(s.heap) > 0 && s.heap[0].moment.due() <= now && s.batch > now {
		s.batch, s.limit = now, now
		s.attendLocked(now)
	}
}

// batch finds workers that can be run together.
type batch struct {
	*schedule
	heap  heap
	limit int64 // slots that are due later are passed over
	last  int64 // last due time of the slots that were visited
	least int64 // first end of their windows
}

// visit visits slot i of the heap, and those below.
func (b *batch) visit(i int) {
	m := b.heap[i].moment
	if m.due() > b.limit {
		return
	}
	b.last, b.least = max(b.last, m.due()), min(b.least, b.latest(m))
	for c := 4*i + 1; c < min(4*i+5, len(b.heap)); c++ {
		b.visit(c)
	}
}
