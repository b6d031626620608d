package engine

import "time"

// A tick may run within a window after its due time, like a timer of the Linux kernel with slack. So a
// shard wakes the process once for a batch of workers whose windows overlap, instead of once for each
// worker. A batch runs at the last due time within all of its windows, so a single worker runs exactly at
// its due time.

// DefaultWindow is the longest window. A window is at most a hundredth of the period.
// See RATIONALE.md, "Why may a tick come 10 ms late?"
const DefaultWindow = 10 * time.Millisecond

// moment encodes when a worker may run: the due time as in [schedule], and in the lowest bits the size of
// the window after it. Moments are ordered by due time.
type moment int64

const (
	sizeBits = 3
	maxSize  = 1<<sizeBits - 1 // size of the longest window; each smaller size has half the window, and 0 has none
	// lastDue is the latest due time of a moment, 36 years after the start. It is just before never.
	lastDue = int64(never)>>sizeBits - 1
)

// momentOf returns the moment of a due time with a window of the given size.
func momentOf(due, size int64) moment { return moment(min(due, lastDue)<<sizeBits | size) }

func (m moment) due() int64 { return int64(m) >> sizeBits }

// latest returns the end of the window of m.
func (s *schedule) latest(m moment) int64 { return m.due() + s.window(int64(m)&maxSize) }

// window returns the length of a window of the given size.
func (s *schedule) window(size int64) int64 {
	if size == 0 {
		return 0
	}
	return s.longestWindow >> (maxSize - size)
}

// size returns the size of the window for a period.
func (s *schedule) size(period time.Duration) (size int64) {
	most := int64(period) / 100
	for size = maxSize; size > 0 && s.window(size) > most; size-- {
	}
	return size
}

// planLocked plans the next batch: all workers that are due at its time, none of them after its window.
// The batch time is the latest due time that lies in the window of every worker due before it.
func (s *shard) planLocked() {
	switch {
	case len(s.heap) == 0:
		s.batch, s.limit = never, never
		return
	case s.batch <= s.limit && s.heap[0].moment.due() <= s.batch:
		return // the plan is still valid
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

// advance runs the next batch now, if its first worker is due.
func (s *shard) advance() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.schedule.since(time.Now())
	if len(s.heap) > 0 && s.heap[0].moment.due() <= now && s.batch > now {
		s.batch, s.limit = now, now
		s.scheduleBatchLocked(now)
	}
}

// batch finds workers that can run together.
type batch struct {
	*schedule
	heap  heap
	limit int64 // slots due later are skipped
	last  int64 // last due time of the visited slots
	least int64 // earliest end of their windows
}

// visit visits slot i of the heap and the slots below.
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
