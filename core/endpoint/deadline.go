package endpoint

import (
	"container/heap"
	"time"
)

// deadline is a time at which a check or a forced state changes by itself.
type deadline[K comparable] struct {
	at    time.Time
	check *check[K] // nil: entry is set
	entry *entry[K] // whose forced state ends
}

func (d *deadline[K]) index() *int32 {
	if d.check != nil {
		return &d.check.deadline
	}
	return &d.entry.deadline
}

// deadlines is a heap, in which checks and entries know their places.
type deadlines[K comparable] struct{ list []deadline[K] }

// Len implements [heap.Interface].
func (h *deadlines[K]) Len() int { return len(h.list) }

// Less implements [heap.Interface].
func (h *deadlines[K]) Less(i, j int) bool { return h.list[i].at.Before(h.list[j].at) }

// Swap implements [heap.Interface].
func (h *deadlines[K]) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	*h.list[i].index(), *h.list[j].index() = int32(i), int32(j)
}

// Push implements [heap.Interface].
func (h *deadlines[K]) Push(x any) {
	d := x.(deadline[K])
	*d.index() = int32(len(h.list))
	h.list = append(h.list, d)
}

// Pop implements [heap.Interface].
func (h *deadlines[K]) Pop() any {
	last := len(h.list) - 1
	d := h.list[last]
	h.list[last] = deadline[K]{}
	h.list = h.list[:last]
	*d.index() = -1
	return d
}

// set adds a deadline, or moves it. It reports whether the first one has changed.
func (h *deadlines[K]) set(d deadline[K]) (first bool) {
	if i := *d.index(); i >= 0 {
		h.list[i] = d
		heap.Fix(h, int(i))
	} else {
		heap.Push(h, d)
	}
	return *d.index() == 0
}

func (h *deadlines[K]) remove(index *int32) {
	if *index >= 0 {
		heap.Remove(h, int(*index))
	}
}

// planLocked plans what a check does next by itself.
func (s *Set[K]) planLocked(c *check[K]) {
	at, ok := c.next()
	switch {
	case c.entry == nil || !ok:
		s.deadlines.remove(&c.deadline)
	case s.deadlines.set(deadline[K]{at: at, check: c}):
		s.signal()
	}
}

func (s *Set[K]) planForcedLocked(e *entry[K]) {
	switch {
	case e.forced == nil || e.forced.Until.IsZero():
		s.deadlines.remove(&e.deadline)
	case s.deadlines.set(deadline[K]{at: e.forced.Until, entry: e}):
		s.signal()
	}
}

// expire runs deadlines until the set is shut down.
func (s *Set[K]) expire() {
	defer close(s.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, closed := s.expireDue()
		if closed {
			return
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.wake:
		}
	}
}

// maxWait is the longest wait for a deadline. When the clock is put forward, a schedule is due by the clock
// while a timer goes by the time that passes.
const maxWait = time.Minute

// expireDue runs the deadlines that are due. It returns how long to wait until it is called again.
func (s *Set[K]) expireDue() (wait time.Duration, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && len(s.deadlines.list) > 0 {
		now := time.Now()
		d := s.deadlines.list[0]
		if now.Before(d.at) {
			return min(d.at.Sub(now), maxWait), false
		}
		heap.Pop(&s.deadlines)
		if d.check == nil {
			s.evaluateLocked(d.entry, now, false)
			continue
		}
		d.check.expireLocked(now)
		s.planLocked(d.check)
	}
	return time.Hour, s.closed
}
