// Package sched shares the resources of a host among the attempts of its plugins: processors with
// [Slots], instances and memory with [Quota].
package sched

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Patience is the time without a released slot after which an extra slot is added.
const Patience = 10 * time.Millisecond

// Slots is a semaphore that bounds how many guests compute concurrently. Guests that wait for the
// host release their slots. If no slot is released for [Patience], the holders may be in endless
// loops. Then an extra slot is added so that others can run. It is removed when nobody waits.
type Slots struct {
	mayAdd func() bool // called before a slot is added, without the lock

	mu      sync.Mutex
	free    int
	extra   int             // number of extra slots
	waiting []chan struct{} // the longest waiting one is first
	last    time.Time       // when a slot was last handed over or added
}

// NewSlots returns n slots. Extra ones are added only if mayAdd returns true.
func NewSlots(n int, mayAdd func() bool) *Slots { return &Slots{free: n, mayAdd: mayAdd} }

// TryAcquire takes a slot if one is free, and reports whether it did.
func (s *Slots) TryAcquire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// Acquire waits for a slot and takes it. It returns false if ctx ended first.
func (s *Slots) Acquire(ctx context.Context) bool {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return true
	}
	mine := make(chan struct{}, 1)
	s.waiting = append(s.waiting, mine)
	s.mu.Unlock()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for {
		select {
		case <-mine:
			return true
		case <-ctx.Done():
			return s.leave(mine)
		case <-timer.C:
			if s.mayAdd() {
				s.add()
			}
			timer.Reset(Patience)
		}
	}
}

// leave removes mine from the waiters, and reports whether a slot was handed over to it meanwhile.
func (s *Slots) leave(mine chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, mine)
	if i < 0 {
		return true
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return false
}

// add adds an extra slot if none was handed over for [Patience].
func (s *Slots) add() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 || time.Since(s.last) < Patience {
		return
	}
	s.extra++
	s.handOverLocked()
}

// Release releases a slot.
func (s *Slots) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.waiting) > 0:
		s.handOverLocked()
	case s.extra > 0:
		s.extra--
	default:
		s.free++
	}
}

func (s *Slots) handOverLocked() {
	s.last = time.Now()
	s.waiting[0] <- struct{}{}
	s.waiting = slices.Delete(s.waiting, 0, 1)
}
