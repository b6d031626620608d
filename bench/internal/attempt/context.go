package attempt

import (
	"context"
	"sync"
	"time"
)

// deadlineContext is a context with a deadline. Like the context that a worker gives to a handler, it starts
// a timer only when Done or AfterFunc is called. A context of the context package takes half as long as an
// attempt of a small guest.
type deadlineContext struct {
	context.Context // the background
	deadline        time.Time

	once   sync.Once
	timed  context.Context // nil until the timer is needed
	cancel context.CancelFunc
}

func withDeadline(timeout time.Duration) *deadlineContext {
	return &deadlineContext{Context: context.Background(), deadline: time.Now().Add(timeout)}
}

func (c *deadlineContext) withTimer() context.Context {
	c.once.Do(func() { c.timed, c.cancel = context.WithDeadline(c.Context, c.deadline) })
	return c.timed
}

// end stops the timer, if there is one.
func (c *deadlineContext) end() {
	if c.cancel != nil {
		c.cancel()
	}
}

// Deadline implements [context.Context].
func (c *deadlineContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements [context.Context].
func (c *deadlineContext) Done() <-chan struct{} { return c.withTimer().Done() }

// AfterFunc calls f when c has ended: [context.AfterFunc] uses it.
func (c *deadlineContext) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(c.withTimer(), f)
}

// Err implements [context.Context].
func (c *deadlineContext) Err() error {
	if time.Now().Before(c.deadline) {
		return nil
	}
	return context.DeadlineExceeded
}
