package guest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/memory"
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

// watch begins to watch the guest of c, and returns the context to run it under. stop ends
// that.
func (c *Call) watch(ctx context.Context) (run context.Context, stop func()) {
	interrupt := make(chan struct{})
	c.mu.Lock()
	c.interrupt, c.returned, c.interrupted, c.unwound = interrupt, false, false, false
	c.mu.Unlock()
	cancel := context.AfterFunc(c.ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.waiting && !c.unwound {
			c.interruptLocked()
		}
	})
	return &callContext{ctx, c, interrupt}, func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.returned = true
	}
}

// stop has the guest end at its next branch.
func (c *Call) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interruptLocked()
}

func (c *Call) interruptLocked() {
	if !c.returned && !c.interrupted {
		c.interrupted = true
		close(c.interrupt)
	}
}

// suspend notes that the guest waits for w.
func (c *Call) suspend(w waiting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = true
	c.waitsLocked(w)
}

// resume notes that the guest no longer waits. It is to be unwound if the call has ended:
// then what it waited for stays on record.
func (c *Call) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = false
	// Under the lock: if the call ends after this, the watchdog finds the guest computing.
	if c.unwound = c.Ended() != nil; !c.unwound {
		c.goesOnLocked()
	}
}

// unwindIfEnded panics if the guest is to be unwound. wazero returns errEnded from the call
// of the guest.
func (c *Call) unwindIfEnded() {
	if c.unwound {
		panic(errEnded)
	}
}

// isWaiting reports whether the guest waits for the host.
func (c *Call) isWaiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// Usable reports whether the instance of a guest that returned err can be reset: the guest
// was not interrupted, and returned or was unwound.
func (c *Call) Usable(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.interrupted && (err == nil || c.unwound)
}

// inTime is f, a function that reaches out of the host, until the call has ended. wazero may
// take a while to notice that.
func inTime(f hostFunc) hostFunc {
	return func(c *Call, mem api.Memory, a args) int64 {
		if c.Ended() != nil {
			c.mu.Lock()
			c.unwound = true
			c.mu.Unlock()
			c.unwindIfEnded()
		}
		return f(c, mem, a)
	}
}

// callContext is the context that a guest runs under. Host functions find their call in it,
// since one host module serves all instances. It ends when the guest is interrupted. Each run
// of the guest has its own: wazero may look at that of an earlier run a moment longer.
type callContext struct {
	context.Context
	call      *Call
	interrupt <-chan struct{} // nil outside of a run
}

// callKey is the key of the call in the context of a guest's call.
type callKey struct{}

// WithCall returns a context in which host functions find c.
func WithCall(ctx context.Context, c *Call) context.Context {
	return &callContext{Context: ctx, call: c}
}

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
	if c.interrupt != nil {
		return c.interrupt
	}
	return c.Context.Done()
}

// Err implements [context.Context].
func (c *callContext) Err() error {
	if c.interrupt == nil {
		return c.Context.Err()
	}
	select {
	case <-c.interrupt:
		return context.Canceled
	default:
		return nil
	}
}

// ErrStack is the error of a guest that was ended for its stack.
var ErrStack = errors.New("its stack takes more memory than there is")

// run is a function of a guest that is under way.
type run struct {
	fn     api.Function
	memory *memory.Memory
	deep   bool // it was ended for its stack; guarded by runs.mu while the guest runs
}

// runs are the runs of a host. Of those that wait for the host the stack is counted; of the
// others only as many go on as there are processors, as long as all have large stacks.
type runs struct {
	mu  sync.Mutex
	all map[*Call]struct{}
}

func (r *runs) begin(c *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[*Call]struct{})
	}
	r.all[c] = struct{}{}
}

func (r *runs) done(c *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, c)
}

// Enter calls fn of the guest for the call of w, in ctx.
func (w *World) Enter(ctx context.Context, fn api.Function, stack []uint64) error {
	c := w.call
	c.run = run{fn: fn, memory: w.memory}
	c.record.since = c.host.Clock.Now()
	ctx, stop := c.watch(ctx)
	defer stop()
	c.host.runs.begin(c)
	err := fn.CallWithStack(ctx, stack)
	c.host.runs.done(c)
	if c.run.deep && err != nil {
		w.memory.Starve()
		return ErrStack
	}
	return err
}

// BoundStacks reports whether one guest more may run than there are processors: none where
// the stacks of those that compute take more than a quarter of the memory. Then it ends the
// guest with the largest.
func (h *Host) BoundStacks() bool {
	if h.Interpreter { // it has 2000 frames at most
		return true
	}
	h.runs.mu.Lock()
	defer h.runs.mu.Unlock()
	var sum, largest uint64
	var deepest *Call
	for c := range h.runs.all {
		if c.isWaiting() {
			continue
		}
		n := memory.StackOf(c.run.fn)
		if sum += n; n > largest {
			largest, deepest = n, c
		}
	}
	if sum <= h.Budget.Total()/4 || largest <= memory.FreeStack {
		return true
	}
	deepest.run.deep = true
	deepest.stop()
	return false
}

// countStack counts the guest's stack in the budget, now that it is going to wait for the
// host: then any number of guests may have one. A guest for whose stack there is no room
// is ended.
func (c *Call) countStack() {
	if m := c.run.memory; m != nil && !m.GrowStack(memory.StackOf(c.run.fn)) {
		panic(ErrStack) // wazero returns it from the call of the guest
	}
}
