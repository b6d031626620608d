package sdk

import (
	"context"
	"math"
	"time"
)

// callContext is the context of one call. Most calls only ever ask it for its deadline,
// and are spared the timer that ends it, which costs more than the rest of a short call.
type callContext struct {
	deadline time.Time // zero: none
	real     context.Context
	cancel   context.CancelFunc
}

var _ context.Context = (*callContext)(nil)

func newCallContext() *callContext {
	left := hostDeadlineMs()
	if left > math.MaxInt64/int64(time.Millisecond) {
		return &callContext{}
	}
	return &callContext{deadline: time.Now().Add(time.Duration(left) * time.Millisecond)}
}

// Deadline implements [context.Context].
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements [context.Context].
func (c *callContext) Done() <-chan struct{} {
	switch {
	case c.real != nil:
	case c.deadline.IsZero():
		c.real, c.cancel = context.WithCancel(context.Background())
	default:
		c.real, c.cancel = context.WithDeadline(context.Background(), c.deadline)
	}
	return c.real.Done()
}

// Err implements [context.Context].
func (c *callContext) Err() error {
	switch {
	case c.real != nil:
		return c.real.Err()
	case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Value implements [context.Context]. Contexts that are made of this one find the real
// one by it, once they have asked for Done, and need no goroutine to follow it.
func (c *callContext) Value(key any) any {
	if c.real == nil {
		return nil
	}
	return c.real.Value(key)
}

// end ends the context.
func (c *callContext) end() {
	if c.real != nil {
		c.cancel()
	}
}
