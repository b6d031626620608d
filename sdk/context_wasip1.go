package sdk

import (
	"context"
	"math"
	"time"
)

// callContext is the context of one call. Most calls only use its deadline, so its timer starts at the
// first call of Done: a timer costs more than the rest of a short call.
type callContext struct {
	asked    bool      // the host was asked for the deadline
	ended    bool      // the call has ended
	deadline time.Time // zero: no deadline
	real     context.Context
	cancel   context.CancelFunc
}

var _ context.Context = (*callContext)(nil)

// contexts has the contexts of the next calls. Allocating several at once costs little more than one. A
// context is not reused, because a goroutine may use it after its end.
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

// Value implements [context.Context]. A derived context, which has called Done, finds the real context
// through it, and needs no goroutine to watch this one.
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
