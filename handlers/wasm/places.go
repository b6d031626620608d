package wasm

import (
	"context"
	"slices"
	"sync"
	"time"
)

// patience is how long the places may all stay taken before one more is made.
const patience = 10 * time.Millisecond

// places bounds the guests that use a processor at the same time. Guests that give
// their places back share the ones that there are. Where none has been given back for
// the time of patience, its holders loop, and one more place is made, so that they do
// not shut out the others; it goes when nobody waits for it.
//
// A guest that goes on comes before one that is to begin: what it holds is free all the
// sooner, and a burst of attempts does with few instances.
type places struct {
	mayMake func() bool // asked before a place is made, without the lock; nil: it may

	mu       sync.Mutex
	free     int
	extra    int             // places that were made
	begun    []chan struct{} // of guests that go on
	starting []chan struct{} // of guests that are to begin
	ahead    int             // places in turn that went to guests that go on, while others were to begin
	last     time.Time       // when a place was last given back or made
}

// maxAhead is how many guests that go on may come before one that is to begin: those
// that wait all the time must not keep out the others.
const maxAhead = 7

// tryTake takes a place if one is free.
func (p *places) tryTake() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == 0 {
		return false
	}
	p.free--
	return true
}

// take returns with a place, or false when ctx ended first. begun is said of a guest
// that goes on.
func (p *places) take(ctx context.Context, begun bool) bool {
	p.mu.Lock()
	if p.free > 0 {
		p.free--
		p.mu.Unlock()
		return true
	}
	mine := make(chan struct{}, 1)
	queue := p.queue(begun)
	*queue = append(*queue, mine)
	p.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-mine:
			return true
		case <-ctx.Done():
			return p.leave(queue, mine)
		case <-timer.C:
			if p.mayMake == nil || p.mayMake() {
				p.makeOne()
			}
			timer.Reset(patience)
		}
	}
}

// leave ends waiting, and reports whether a place was handed over meanwhile.
func (p *places) leave(queue *[]chan struct{}, mine chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(*queue, mine)
	if i < 0 {
		return true
	}
	*queue = slices.Delete(*queue, i, i+1)
	return false
}

func (p *places) queue(begun bool) *[]chan struct{} {
	if begun {
		return &p.begun
	}
	return &p.starting
}

func (p *places) waitingLocked() bool { return len(p.begun)+len(p.starting) > 0 }

// makeOne makes a place for whoever has waited for longest, if its time has come.
func (p *places) makeOne() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.waitingLocked() || time.Since(p.last) < patience {
		return
	}
	p.extra++
	p.handOverLocked()
}

// give gives a place back.
func (p *places) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.waitingLocked():
		p.handOverLocked()
	case p.extra > 0:
		p.extra--
	default:
		p.free++
	}
}

func (p *places) handOverLocked() {
	p.last = time.Now()
	queue := &p.begun
	if len(p.begun) == 0 || len(p.starting) > 0 && p.ahead >= maxAhead {
		queue, p.ahead = &p.starting, 0
	} else {
		p.ahead++
	}
	(*queue)[0] <- struct{}{}
	*queue = slices.Delete(*queue, 0, 1)
}
