package plugintest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
)

// epoch is when every test begins. It lies in the past, so that a deadline of the
// real clock never ends what this clock times.
var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// clock is a clock on which only waiting takes time: whoever waits moves it on, to
// the next thing that happens or to the end of the wait.
type clock struct {
	stuck *allowance // of real time that a call may take

	mu       sync.Mutex
	now      time.Time
	events   []event // by time, those of one moment in the order in which they came
	timeouts []*timeout
}

var (
	_ wasm.Clock = (*clock)(nil)
	_ timeline   = (*clock)(nil)
)

// timeline is the time of a network.
type timeline interface {
	// Now returns the time.
	Now() time.Time
	// Wait returns when ctx ends, wake is signalled or d has passed; a negative d never
	// passes.
	Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool
	// at has do called at t, after all that was to be called until then.
	at(t time.Time, do func())
}

type event struct {
	at time.Time
	do func()
}

func newClock(stuck *allowance) *clock { return &clock{stuck: stuck, now: epoch} }

// allowance is the real time that a call may take, in nanoseconds. Whoever has used it up once
// gets less of it from then on: a guest that spins in one call most likely does in hundreds.
type allowance struct{ atomic.Int64 }

const (
	firstAllowance = 20 * time.Second
	nextAllowance  = 2 * time.Second
)

func newAllowance(d time.Duration) *allowance {
	a := &allowance{}
	a.Store(int64(d))
	return a
}

// spend returns what was used up.
func (a *allowance) spend() time.Duration {
	spent := a.Load()
	a.Store(min(spent, int64(nextAllowance)))
	return time.Duration(spent)
}

// Now implements [wasm.Clock].
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// startAt forgets what was to happen and moves the clock to t, never back.
func (c *clock) startAt(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = nil
	c.moveLocked(t)
}

// at implements [timeline].
func (c *clock) at(t time.Time, do func()) {
	c.mu.Lock()
	if !t.After(c.now) && (len(c.events) == 0 || c.events[0].at.After(t)) {
		c.mu.Unlock()
		do()
		return
	}
	defer c.mu.Unlock()
	c.events = inserted(c.events, event{t, do})
}

// inserted returns events with e after those of its time.
func inserted(events []event, e event) []event {
	i := len(events)
	for i > 0 && events[i-1].at.After(e.at) {
		i--
	}
	return slices.Insert(events, i, e)
}

// Wait implements [wasm.Clock].
func (c *clock) Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	until, bounded := c.Now().Add(d), d >= 0
	if deadline, ok := ctx.Deadline(); ok && (!bounded || deadline.Before(until)) {
		until, bounded = deadline, true
	}
	for ctx.Err() == nil {
		select {
		case <-wake:
			return true
		default:
		}
		switch {
		case c.step(until, bounded):
			if wake != nil {
				return true
			}
		case bounded:
			return false
		default: // nothing will happen any more
			<-ctx.Done()
		}
	}
	return false
}

// step lets the next event before until happen. Where there is none it moves the
// clock to until, and reports false.
func (c *clock) step(until time.Time, bounded bool) bool {
	c.mu.Lock()
	if len(c.events) == 0 || bounded && c.events[0].at.After(until) {
		if bounded {
			c.moveLocked(until)
		}
		c.mu.Unlock()
		return false
	}
	next := c.events[0]
	c.events = c.events[1:]
	c.moveLocked(next.at)
	c.mu.Unlock()
	next.do()
	return true
}

func (c *clock) moveLocked(to time.Time) {
	if to.Before(c.now) {
		return
	}
	c.now = to
	c.timeouts = slices.DeleteFunc(c.timeouts, func(t *timeout) bool {
		over := !t.deadline.After(to)
		if over {
			t.cancel()
		}
		return over
	})
}

// timeout is a context with a deadline of the clock. Against guests that never wait
// it ends after some real time as well.
type timeout struct {
	context.Context
	cancel   context.CancelFunc
	clock    *clock
	deadline time.Time
}

// WithTimeout implements [wasm.Clock].
func (c *clock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	t := &timeout{clock: c, deadline: c.Now().Add(d)}
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(t.deadline) {
		t.deadline = earlier
	}
	t.Context, t.cancel = context.WithTimeout(ctx, time.Duration(c.stuck.Load()))
	c.mu.Lock()
	c.timeouts = append(c.timeouts, t)
	c.moveLocked(c.now)
	c.mu.Unlock()
	return t, func() {
		t.cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timeouts = slices.DeleteFunc(c.timeouts, func(o *timeout) bool { return o == t })
	}
}

// Deadline implements [context.Context].
func (t *timeout) Deadline() (time.Time, bool) { return t.deadline, true }

// Err implements [context.Context]. The end of the real time is no deadline.
func (t *timeout) Err() error {
	switch {
	case t.Context.Err() == nil:
		return nil
	case !t.clock.Now().Before(t.deadline):
		return context.DeadlineExceeded
	default:
		return context.Canceled
	}
}
