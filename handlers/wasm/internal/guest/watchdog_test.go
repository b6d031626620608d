package guest

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// endsInErr is a context that ends during the first call of Err. That call still returns nil.
type endsInErr struct {
	context.Context
	end context.CancelFunc
}

func (c *endsInErr) Err() error {
	if end := c.end; end != nil {
		c.end = nil
		end()
		for range 10_000 { // lets the watchdog run
			runtime.Gosched()
		}
		return nil
	}
	return c.Context.Err()
}

// TestResumeAfterEndInterruptsGuest ends the context while resume reads it. The guest must be
// interrupted or unwound.
func TestResumeAfterEndInterruptsGuest(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	ctx := &endsInErr{Context: parent}
	c := &Call{ctx: ctx, host: &Host{Clock: SystemClock{}}}
	run := c.watch(ctx, nil)
	defer c.unwatchReturned()
	c.suspend(waiting{call: "read"})
	ctx.end = cancel
	c.resume()
	if c.unwound {
		return
	}
	select {
	case <-run.Done():
	case <-time.After(10 * time.Second):
		t.Error("the guest is neither unwound nor interrupted")
	}
}
