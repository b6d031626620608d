package clock

import (
	"context"
	"sync"
	"time"
)

// Real is the clock of the program. In a bubble of testing/synctest its time passes at once.
type Real struct {
	mu     sync.Mutex
	events []event
}

var _ Clock = (*Real)(nil)

// Now implements [Clock].
func (*Real) Now() time.Time { return time.Now() }

// Follow implements [Clock].
func (*Real) Follow(int) {}

// Wait implements [Clock].
func (*Real) Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	var over <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-wake:
		return true
	case <-ctx.Done():
	case <-over:
	}
	return false
}

// At implements [Clock]. Timers that are due together fire in any order, so each one calls
// the earliest event, not its own.
func (r *Real) At(t time.Time, do func()) {
	r.mu.Lock()
	r.events = inserted(r.events, event{t, do})
	r.mu.Unlock()
	if wait := time.Until(t); wait > 0 {
		time.AfterFunc(wait, r.callDue)
		return
	}
	r.callDue()
}

// callDue calls all events that are due.
func (r *Real) callDue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for now := time.Now(); len(r.events) > 0 && !r.events[0].at.After(now); {
		next := r.events[0]
		r.events = r.events[1:]
		next.do()
	}
}
