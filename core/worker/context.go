package worker

import (
	"context"
	"sync"
	"time"
)

// attemptContext is the context of one attempt. It costs neither a timer nor memory until a
// handler asks for its end: with Done, Err, or a context derived from it. A context that nobody
// asked is used again for the next attempt. So a handler must not begin to use it after it has
// returned.
type attemptContext struct {
	deadline time.Time // zero: none; read-only during the attempt

	mu     sync.Mutex
	err    error // nil until the context has ended
	done   chan struct{}
	timer  *time.Timer
	after  map[*func()]struct{} // functions of AfterFunc that were not called yet
	shared bool                 // someone may wait for the end, or ask for it again
}

var _ context.Context = (*attemptContext)(nil)

// begin makes c the context of an attempt.
func (c *attemptContext) begin(deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline, c.err = deadline, nil
}

// end ends c, and reports whether it may be used for another attempt.
func (c *attemptContext) end() (reusable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(context.Canceled)
	return !c.shared
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
func (c *attemptContext) Value(any) any { return nil }

// AfterFunc calls f in a goroutine when c ends. The context package uses it for contexts that are
// derived from c, which would cost a goroutine each otherwise.
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

// watchLocked makes c end at its deadline.
func (c *attemptContext) watchLocked() {
	c.shared = true
	c.checkLocked()
	if c.err != nil || c.timer != nil || c.deadline.IsZero() {
		return
	}
	c.timer = time.AfterFunc(time.Until(c.deadline), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endLocked(context.DeadlineExceeded)
	})
}

// checkLocked ends c if its deadline has passed.
func (c *attemptContext) checkLocked() {
	if c.err == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		c.endLocked(context.DeadlineExceeded)
	}
}
