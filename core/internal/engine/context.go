package engine

import (
	"context"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/handshake"
	"github.com/daeace23/prober/internal/suspend"
)

// attemptContext is the context of one attempt. It allocates no timer and no memory until a handler uses
// Done, Err, or a derived context. An unused context is reused for the next attempt. So a handler must not
// start to use it after the handler has returned: a goroutine that does may see the end of another attempt.
// See RATIONALE.md, "Why has an attempt a context of its own?"
type attemptContext struct {
	timeout time.Duration // 0: no timeout; read-only during the attempt
	of      *observers    // of the probe; read-only during the attempt

	mu       sync.Mutex
	deadline time.Time     // zero: no deadline
	watch    stallWatch    // set before the attempt
	deferred time.Duration // how long the timeout was suspended
	// suspended is the number of parts of a handler that suspend the timeout, since idle.
	suspended int
	idle      time.Time
	err       error // nil until the context has ended
	done      chan struct{}
	timer     *time.Timer
	after     map[*func()]struct{} // functions of AfterFunc that are not called yet
	shared    bool                 // a goroutine may wait for the end, ask for it, or change the deadline
}

var (
	_ context.Context = (*attemptContext)(nil)
	_ suspend.Context = (*attemptContext)(nil)
)

// begin makes c the context of an attempt that begins now. It returns false, and does nothing, if an
// earlier handler or its goroutines may still use c. of has the observers of the probe.
func (c *attemptContext) begin(of *observers, timeout time.Duration, now time.Time) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared {
		return false
	}
	c.of, c.timeout, c.deferred, c.suspended, c.err = of, timeout, 0, 0, nil
	c.restartLocked(now)
	return true
}

func (c *attemptContext) restartLocked(now time.Time) {
	c.deadline = time.Time{}
	if c.timeout > 0 {
		c.deadline = now.Add(c.timeout)
	}
}

// lost returns how long the agent was stalled since the timeout began.
func (c *attemptContext) lost() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watch.lost()
}

// Suspend implements [suspend.Context].
func (c *attemptContext) Suspend() (resume func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checkLocked()
	if c.err != nil {
		return nil, false
	}
	c.shared, c.deadline = true, time.Time{}
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if c.suspended++; c.suspended == 1 {
		c.idle = time.Now()
	}
	return sync.OnceFunc(c.resume), true
}

// resume restarts the timeout, when every part of the handler that has suspended it is ready.
func (c *attemptContext) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.suspended--; c.suspended > 0 || c.err != nil {
		return
	}
	now := time.Now()
	c.deferred += now.Sub(c.idle)
	c.watch.restart()
	c.restartLocked(now)
	c.watchLocked()
}

// end ends c, and returns how long its timeout was suspended.
func (c *attemptContext) end() (deferred time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(context.Canceled)
	return c.deferred
}

// cancel ends c.
func (c *attemptContext) cancel() { c.end() }

func (c *attemptContext) endLocked(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	for f := range c.after {
		go (*f)()
	}
	c.after = nil
}

// Deadline implements [context.Context].
func (c *attemptContext) Deadline() (deadline time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadline, !c.deadline.IsZero()
}

// Done implements [context.Context].
func (c *attemptContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	c.watchLocked()
	return c.done
}

// Err implements [context.Context].
func (c *attemptContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared = true
	c.checkLocked()
	return c.err
}

// Value implements [context.Context].
func (c *attemptContext) Value(key any) any {
	switch key {
	case suspend.Key{}:
		return c
	case handshake.Key{}:
		if w := c.of.watcher(); w != nil {
			return w
		}
	}
	return nil
}

// AfterFunc calls f in a goroutine when c ends. Package context uses it for derived contexts, which would
// need a goroutine each otherwise.
func (c *attemptContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchLocked()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	if c.after == nil {
		c.after = make(map[*func()]struct{})
	}
	key := &f
	c.after[key] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waiting := c.after[key]
		delete(c.after, key)
		return waiting
	}
}

// watchLocked starts the timer that ends c at its deadline.
func (c *attemptContext) watchLocked() {
	c.shared = true
	c.checkLocked()
	if c.err != nil || c.timer != nil || c.deadline.IsZero() {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(c.deadline), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.timer == timer { // the timeout was not suspended
			c.endLocked(context.DeadlineExceeded)
		}
	})
	c.timer = timer
}

// checkLocked ends c if its deadline has passed.
func (c *attemptContext) checkLocked() {
	if c.err == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		c.endLocked(context.DeadlineExceeded)
	}
}
