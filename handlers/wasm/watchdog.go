package wasm

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// watchdog ends the guest of a call when the call's context ends. A guest that computes is
// ended by wazero, which closes its instance. A guest that waits for the host is unwound as
// soon as its host call returns: its instance stays usable, so that a reset is enough, which
// costs hundreds of times less than a new instance.
type watchdog struct {
	mu          sync.Mutex
	interrupt   chan struct{} // closed to have wazero end a guest that computes; nil before a guest is entered
	waiting     bool          // the guest waits for the host
	returned    bool          // the guest has returned: there is nothing left to end
	interrupted bool          // interrupt is closed
	unwound     bool          // the context ended while the guest waited, or before it called out of the host
}

// errEnded unwinds a guest whose call has ended.
var errEnded = errors.New("the call has ended")

// watch begins to watch the guest of c. The function that it returns ends that.
func (c *call) watch() (stop func()) {
	c.mu.Lock()
	c.interrupt, c.returned, c.interrupted, c.unwound = make(chan struct{}), false, false, false
	c.mu.Unlock()
	cancel := context.AfterFunc(c.ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.waiting && !c.unwound {
			c.interruptLocked()
		}
	})
	return func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.returned = true
	}
}

// stop has the guest end at its next branch.
func (c *call) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interruptLocked()
}

func (c *call) interruptLocked() {
	if !c.returned && !c.interrupted {
		c.interrupted = true
		close(c.interrupt)
	}
}

// suspend notes that the guest waits for w.
func (c *call) suspend(w waiting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = true
	c.waitsLocked(w)
}

// resume notes that the guest no longer waits. It is to be unwound if the call has ended:
// then what it waited for stays on record.
func (c *call) resume() {
	ended := c.ended()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = false
	if c.unwound = ended != nil; !c.unwound {
		c.goesOnLocked()
	}
}

// unwindIfEnded panics if the guest is to be unwound. wazero returns errEnded from the call
// of the guest.
func (c *call) unwindIfEnded() {
	if c.unwound {
		panic(errEnded)
	}
}

// isWaiting reports whether the guest waits for the host.
func (c *call) isWaiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// usable reports whether the instance of a guest that returned err can be reset: the guest
// was not interrupted, and returned or was unwound.
func (c *call) usable(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.interrupted && (err == nil || c.unwound)
}

// inTime is f, a function that reaches out of the host, until the call has ended. wazero may
// take a while to notice that.
func inTime(f hostFunc) hostFunc {
	return func(c *call, mem api.Memory, a args) int64 {
		if c.ended() != nil {
			c.mu.Lock()
			c.unwound = true
			c.mu.Unlock()
			c.unwindIfEnded()
		}
		return f(c, mem, a)
	}
}

// callContext is the context that a guest runs under. Host functions find their call in it,
// since one host module serves all instances. It ends when the guest is interrupted.
type callContext struct {
	context.Context
	call *call
}

// callKey is the key of the call in the context of a guest's call.
type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context { return &callContext{ctx, c} }

// Value implements [context.Context].
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	return c.Context.Value(key)
}

// Deadline implements [context.Context].
func (c *callContext) Deadline() (time.Time, bool) { return c.Context.Deadline() }

// Done implements [context.Context].
func (c *callContext) Done() <-chan struct{} {
	if c.call.interrupt != nil {
		return c.call.interrupt
	}
	return c.Context.Done()
}

// Err implements [context.Context].
func (c *callContext) Err() error {
	if c.call.interrupt == nil {
		return c.Context.Err()
	}
	select {
	case <-c.call.interrupt:
		return context.Canceled
	default:
		return nil
	}
}
