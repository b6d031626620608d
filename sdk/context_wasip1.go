package sdk

import (
	"context"
	"math"
	"time"
)

// callContext is the context of one call. Most calls use nothing but its deadline, so its timer
// starts with the first call of Done: a timer costs more than the rest of a short call.
type callContext struct {
	asked    bool      // the host for the deadline
	ended    bool      // the call has ended
	deadline time.Time // zero: none
	real     context.Context
	cancel   context.CancelFunc
}

var _ context.Context = (*callContext)(nil)

// contexts are the contexts of the next calls. Several at once cost little more than one. A
// context is not used twice: a goroutine may ask one that has ended.
var contexts []callContext

func newContext() *callContext {
	if len(contexts) == 0 {
		contexts = make([]callContext, 16)
	}
	c := &contexts[0]
	contexts = contexts[1:]
	return c
}

// Deadline implements [context.Context].
func (c *callContext) Deadline() (time.Time, bool) {
	if !c.asked {
		c.ask()
	}
	return c.deadline, !c.deadline.IsZero()
}

// ask asks the host for the deadline of the current call.
func (c *callContext) ask() {
	c.asked = true
	left := int64(0)
	if !c.ended {
		left = hostDeadlineMs()
	}
	if left <= math.MaxInt64/int64(time.Millisecond) {
		c.deadline = time.Now().Add(time.Duration(left) * time.Millisecond)
	}
}

// Done implements [context.Context].
func (c *callContext) Done() <-chan struct{} {
	if c.real == nil {
		c.begin()
	}
	return c.real.Done()
}

// begin starts the real context.
func (c *callContext) begin() {
	if deadline, ok := c.Deadline(); ok && !c.ended {
		c.real, c.cancel = context.WithDeadline(context.Background(), deadline)
	} else {
		c.real, c.cancel = context.WithCancel(context.Background())
	}
	if c.ended {
		c.cancel()
	}
}

// Err implements [context.Context].
func (c *callContext) Err() error {
	switch {
	case c.real != nil:
		return c.real.Err()
	case c.ended:
		return context.Canceled
	case !c.asked && hostDeadlineMs() <= 0, c.asked && !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Value implements [context.Context]. Derived contexts, which have called Done, find the real
// context with it and need no goroutine to watch this one.
func (c *callContext) Value(key any) any {
	if c.real == nil {
		return nil
	}
	return c.real.Value(key)
}

// end ends the context.
func (c *callContext) end() {
	c.ended = true
	if c.real != nil {
		c.cancel()
	}
}
