package clock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
)

// Epoch is the start time of a virtual clock. It is in the past: a deadline of the real clock is
// therefore always later than any time of the virtual clock.
var Epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// Virtual is a clock on which only waiting takes time: a call of Wait moves it to the next
// event or to the end of the wait. While a peer acts in real time, a wait takes real time. The zero value is not usable: see [NewVirtual].
type Virtual struct {
	acted chan struct{} // signalled when a peer in real time has acted

	mu       sync.Mutex
	limit    *Limit // of the real time of one call
	followed int    // number of peers in real time
	now      time.Time
	events   []event // by time, then in the order of the calls of At
	timeouts []*timeout
}

var (
	_ wasm.Clock = (*Virtual)(nil)
	_ Clock      = (*Virtual)(nil)
)

// NewVirtual returns a clock that starts at [Epoch]. A context of its WithTimeout ends after limit
// in real time.
func NewVirtual(limit *Limit) *Virtual {
	return &Virtual{limit: limit, now: Epoch, acted: make(chan struct{}, 1)}
}

// Limit is the real time that one call of a guest may take. It shrinks once a call has
// exceeded it: a guest that spins in one call most likely spins in hundreds.
type Limit struct{ nanoseconds atomic.Int64 }

// reduced is the limit after one call has exceeded it.
const reduced = 2 * time.Second

// NewLimit returns a limit of d.
func NewLimit(d time.Duration) *Limit {
	l := &Limit{}
	l.nanoseconds.Store(int64(d))
	return l
}

// Exceeded reduces the limit, and returns the previous one.
func (l *Limit) Exceeded() time.Duration {
	was := l.nanoseconds.Load()
	l.nanoseconds.Store(min(was, int64(reduced)))
	return time.Duration(was)
}

// Duration returns the limit.
func (l *Limit) Duration() time.Duration { return time.Duration(l.nanoseconds.Load()) }

// SetLimit replaces the limit for later calls of WithTimeout.
func (c *Virtual) SetLimit(l *Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = l
}

// Now implements [wasm.Clock].
func (c *Virtual) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// StartAt drops all events and moves the clock to t. It moves the clock back only if no context of WithTimeout
// is open.
func (c *Virtual) StartAt(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = nil
	if len(c.timeouts) == 0 {
		c.now = t
		return
	}
	c.moveLocked(t)
}

// At implements [Clock].
func (c *Virtual) At(t time.Time, do func()) {
	c.mu.Lock()
	if c.followed > 0 {
		defer c.signal()
	}
	if !t.After(c.now) && (len(c.events) == 0 || c.events[0].at.After(t)) {
		c.mu.Unlock()
		do()
		return
	}
	defer c.mu.Unlock()
	c.events = inserted(c.events, event{t, do})
}

// Follow implements [Clock].
func (c *Virtual) Follow(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followed += n
	c.signal()
}

// signal wakes a wait in real time.
func (c *Virtual) signal() {
	select {
	case c.acted <- struct{}{}:
	default:
	}
}

// follows reports whether a wait takes real time.
func (c *Virtual) follows() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.followed > 0
}

// Wait implements [wasm.Clock].
func (c *Virtual) Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
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
		case c.follows():
			if done, woken := c.follow(ctx, wake, until, bounded); done {
				return woken
			}
		case c.step(until, bounded):
			if wake != nil {
				return true
			}
		case bounded:
			return false
		default: // there is no further event
			<-ctx.Done()
		}
	}
	return false
}

// follow waits in real time for the next event, for until, or for an action of a peer. done reports whether
// the wait is over.
func (c *Virtual) follow(ctx context.Context, wake <-chan struct{}, until time.Time, bounded bool) (done, woken bool) {
	c.mu.Lock()
	start, next, timed := c.now, until, bounded
	if len(c.events) > 0 && (!timed || c.events[0].at.Before(next)) {
		next, timed = c.events[0].at, true
	}
	c.mu.Unlock()
	var due <-chan time.Time
	if timed {
		timer := time.NewTimer(max(0, next.Sub(start)))
		defer timer.Stop()
		due = timer.C
	}
	begun := time.Now()
	select {
	case <-wake:
		done, woken = true, true
	case <-ctx.Done():
		done = true
	case <-c.acted:
		done, woken = wake != nil, true
	case <-due:
		if c.step(next, true) {
			return wake != nil, true
		}
		return bounded && !next.Before(until), false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := start.Add(time.Since(begun))
	if timed && now.After(next) {
		now = next
	}
	c.moveLocked(now)
	return done, woken
}

// step calls the next event before until. Without one it moves the clock to until, and
// reports false.
func (c *Virtual) step(until time.Time, bounded bool) bool {
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

func (c *Virtual) moveLocked(to time.Time) {
	if to.Before(c.now) {
		return
	}
	c.now = to
	c.timeouts = slices.DeleteFunc(c.timeouts, func(t *timeout) bool {
		expired := !t.deadline.After(to)
		if expired {
			t.cancel()
		}
		return expired
	})
}

// timeout is a context with a deadline of the virtual clock. It also ends at the limit of
// real time, for guests that never wait.
type timeout struct {
	context.Context
	cancel   context.CancelFunc
	clock    *Virtual
	deadline time.Time
}

// WithTimeout implements [wasm.Clock].
func (c *Virtual) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	t := &timeout{clock: c, deadline: c.Now().Add(d)}
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(t.deadline) {
		t.deadline = earlier
	}
	c.mu.Lock()
	limit := c.limit.Duration()
	c.mu.Unlock()
	t.Context, t.cancel = context.WithTimeout(ctx, limit) // it may call Err of a timeout, which locks
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

// Err implements [context.Context]. At the limit of real time the error is Canceled.
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
