package wasm

import (
	"context"
	"sync"
	"time"
)

// patience is how long the places may all stay taken before one more is made.
const patience = 10 * time.Millisecond

// places bounds the guests that use a processor at the same time. Guests that give
// their places back share the ones that there are. Where none has been given back for
// the time of patience, its holders loop, and one more place is made, so that they do
// not shut out the others; it goes when nobody waits for it.
type places struct {
	mu      sync.Mutex
	free    int
	extra   int // places that were made
	waiting []chan struct{}
	last    time.Time // when a place was last given back or made
}

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

// take returns with a place, or false when ctx ended first.
func (p *places) take(ctx context.Context) bool {
	p.mu.Lock()
	if p.free > 0 {
		p.free--
		p.mu.Unlock()
		return true
	}
	mine := make(chan struct{}, 1)
	p.waiting = append(p.waiting, mine)
	p.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-mine:
			return true
		case <-ctx.Done():
			return p.leave(mine)
		case <-timer.C:
			p.makeOne()
			timer.Reset(patience)
		}
	}
}

// leave ends waiting, and reports whether a place was handed over meanwhile.
func (p *places) leave(mine chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, ch := range p.waiting {
		if ch == mine {
			p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
			return false
		}
	}
	return true
}

// makeOne makes a place for whoever has waited for longest, if its time has come.
func (p *places) makeOne() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 || time.Since(p.last) < patience {
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
	case len(p.waiting) > 0:
		p.handOverLocked()
	case p.extra > 0:
		p.extra--
	default:
		p.free++
	}
}

func (p *places) handOverLocked() {
	p.last = time.Now()
	p.waiting[0] <- struct{}{}
	p.waiting = p.waiting[1:]
}
