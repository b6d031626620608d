package guest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/handlers/wasm/internal/memory"
)

// watchdog ends the guest of a call when the call's context ends. A guest that waits in a host
// call is unwound when the host call returns, and a metered one when it asks for more fuel. Its
// instance can be reset, which is much cheaper than a new one. A guest that computes and is not
// metered is ended by wazero, which closes its instance.
type watchdog struct {
	meter
	mu          sync.Mutex
	interrupt   chan struct{} // closed to make wazero end the guest; nil before the guest is entered
	waiting     bool          // the guest waits in a host call
	returned    bool          // the guest has returned
	interrupted bool          // interrupt is closed
	unwound     bool          // the guest must be unwound, or was
	unwatch     func() bool   // stops watching the context; nil if the guest is metered
	firstRun    callContext   // context of a guest's first run; of every run if it is metered
	running     neighbours    // guarded by runs.mu
}

// errEnded is the panic that unwinds a guest.
var errEnded = errors.New("the call has ended")

// watch starts the watchdog of c, and returns the context in which the guest runs. The caller calls
// unwatchReturned when the guest has returned.
func (c *Call) watch(ctx context.Context, fuel api.MutableGlobal) context.Context {
	if fuel != nil {
		c.meter.begin(fuel, c.entered)
		c.firstRun = callContext{Context: ctx, call: c}
		return &c.firstRun
	}
	interrupt, run := make(chan struct{}), &c.firstRun
	if c.interrupt != nil {
		run = new(callContext)
	}
	*run = callContext{ctx, c, interrupt}
	c.mu.Lock()
	c.interrupt, c.returned, c.interrupted, c.unwound = interrupt, false, false, false
	c.mu.Unlock()
	c.unwatch = context.AfterFunc(c.ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.waiting && !c.unwound {
			c.interruptLocked()
		}
	})
	return run
}

// unwatchReturned stops the watchdog after the guest has returned.
func (c *Call) unwatchReturned() {
	if c.fuel != nil {
		c.plugin.Fuel.Add(c.used())
		return
	}
	c.unwatch()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returned = true
}

// stop ends the guest: a metered one when it asks for more fuel, another one through wazero at its
// next branch.
func (c *Call) stop() {
	c.stopped.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interruptLocked()
}

func (c *Call) interruptLocked() {
	if !c.returned && !c.interrupted && c.interrupt != nil {
		c.interrupted = true
		close(c.interrupt)
	}
}

// suspend records that the guest waits for w.
func (c *Call) suspend(w waiting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = true
	c.beginWaitLocked(w)
}

// resume records that the guest continues after a wait. If the call has ended, it marks the guest to
// be unwound instead, and the record keeps the wait.
func (c *Call) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = false
	// Checked with the lock held: if the call ends later, the watchdog interrupts the guest.
	if c.unwound = c.Ended() != nil; !c.unwound {
		c.endWaitLocked()
	}
}

// unwindIfEnded panics if the guest must be unwound. wazero returns the panic as the error of the
// guest's call.
func (c *Call) unwindIfEnded() {
	if c.unwound {
		panic(errEnded)
	}
}

// isWaiting reports whether the guest waits in a host call.
func (c *Call) isWaiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// Usable reports whether the instance can be reset after a call that returned err. It can if the
// guest returned or was unwound, and was not ended by wazero.
func (c *Call) Usable(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.interrupted && (err == nil || c.unwound)
}

// inTime wraps f so that a guest whose call has ended is unwound. wazero may end it late.
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

// callContext is the context that a guest runs in. It ends when the guest is interrupted. Host
// functions find their call in it, because one host module serves all instances. Each run of an
// unmetered guest has its own, because a goroutine of wazero may still read an earlier one.
type callContext struct {
	context.Context
	call      *Call
	interrupt <-chan struct{} // nil while the module is instantiated, and if the guest is metered
}

// callKey is the key of the [Call] in a callContext.
type callKey struct{}

// WithCall returns a context from which host functions get c.
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

// ErrStack is the error of a guest that was ended because of its stack.
var ErrStack = errors.New("its stack takes more memory than there is")

// run is a running function of a guest.
type run struct {
	fn     api.Function
	memory *memory.Memory
	deep   bool // ended because of its stack; guarded by runs.mu while the guest runs
}

// runs is a linked list of the calls of a host whose guests run.
type runs struct {
	mu    sync.Mutex
	first *Call
}

// neighbours links a call into the list of runs.
type neighbours struct{ before, after *Call }

func (r *runs) begin(c *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.running = neighbours{after: r.first}
	if r.first != nil {
		r.first.running.before = c
	}
	r.first = c
}

func (r *runs) done(c *Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := c.running
	if n.before != nil {
		n.before.running.after = n.after
	} else {
		r.first = n.after
	}
	if n.after != nil {
		n.after.running.before = n.before
	}
}

// Enter calls fn of the guest for the current call, in ctx.
func (w *World) Enter(ctx context.Context, fn api.Function, stack []uint64) error {
	c := w.call
	c.run = run{fn: fn, memory: w.memory}
	if c.entered, c.before = c.begun, c.waited; c.waited > 0 || c.begun.IsZero() {
		c.entered = c.host.Clock.Now()
	}
	c.record.since = c.entered
	ctx = c.watch(ctx, w.fuel)
	defer c.unwatchReturned()
	c.host.runs.begin(c)
	err := fn.CallWithStack(ctx, stack)
	c.host.runs.done(c)
	if c.run.deep && err != nil {
		w.memory.Starve()
		return ErrStack
	}
	return err
}

// BoundStacks reports whether an extra slot may be added, so that more guests compute than there are
// processors. If the stacks of computing guests take more than a quarter of the memory of all plugins,
// it ends the guest with the largest stack and returns false.
func (h *Host) BoundStacks() bool {
	if h.Interpreter { // limits the stack to 2000 frames
		return true
	}
	h.runs.mu.Lock()
	defer h.runs.mu.Unlock()
	var sum, largest uint64
	var deepest *Call
	for c := h.runs.first; c != nil; c = c.running.after {
		if c.isWaiting() {
			continue
		}
		n := memory.StackOf(c.run.fn).Size()
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

// countStack takes the guest's stack from the budget before the guest waits, because the slots do
// not bound the number of waiting guests. It ends the guest if there is no room.
func (c *Call) countStack() {
	if m := c.run.memory; m != nil && !m.GrowStack(memory.StackOf(c.run.fn).Size()) {
		panic(ErrStack) // wazero returns it from the call of the guest
	}
}

// A computing guest cannot be preempted. Until it asks for more fuel, it delays the garbage collector
// and so every probe. So it gets its fuel in slices.
const (
	// largestSlice takes 20 µs or less, unless instructions are slow.
	largestSlice = 40_000
	leastSlice   = largestSlice / 64

	// longSlice is how long a slice may take before the next ones are smaller.
	longSlice = 100 * time.Microsecond
)

// ownCalls is the number of host calls after which a metered guest is checked for its deadline,
// because most host calls take more time than their fuel accounts for.
const ownCalls = 16

// meter is the fuel of a metered guest. Only the goroutine of the call may use it, except stopped.
type meter struct {
	fuel    api.MutableGlobal // the fuel left in the slice; nil if the guest is not metered
	stopped atomic.Bool       // the guest must be ended
	slice   int64             // the size of the current slice
	since   time.Time         // when the slice began, or when the last wait in it ended
	granted int64             // fuel granted in this run
}

// Meter sets the global that holds the fuel of w's instance.
func (w *World) Meter(fuel api.MutableGlobal) { w.fuel = fuel }

// AddFuel adds the function that metered modules import to a runtime.
func AddFuel(ctx context.Context, runtime wazero.Runtime) error {
	_, err := runtime.NewHostModuleBuilder(binary.RefuelModule).
		NewFunctionBuilder().WithGoFunction(api.GoFunc(refuel), nil, nil).Export(binary.RefuelName).
		Instantiate(ctx)
	return err
}

// refuel is called by a metered guest when its fuel is below zero.
func refuel(ctx context.Context, _ []uint64) {
	c, ok := ctx.Value(callKey{}).(*Call)
	if !ok {
		panic(errEnded)
	}
	c.unwindIfOver()
	now := c.host.Clock.Now()
	switch {
	case now.Sub(c.meter.since) > longSlice:
		c.slice = max(c.slice/8, leastSlice)
	case c.slice < largestSlice:
		c.slice *= 2
	}
	c.meter.since = now
	left := int64(c.fuel.Get())
	c.granted += c.slice - left
	c.fuel.Set(uint64(c.slice))
}

// unwindIfOver panics if the guest must be ended, or if its call has ended.
func (c *Call) unwindIfOver() {
	if c.stopped.Load() {
		panic(errEnded)
	}
	if c.Ended() != nil {
		c.mu.Lock()
		c.unwound = true
		c.mu.Unlock()
		panic(errEnded)
	}
}

// begin grants the guest its first slice.
func (m *meter) begin(fuel api.MutableGlobal, now time.Time) {
	m.fuel, m.slice, m.since, m.granted = fuel, largestSlice, now, largestSlice
	fuel.Set(largestSlice)
}

// used returns the units of fuel that the run has used.
func (m *meter) used() uint64 { return uint64(m.granted - int64(m.fuel.Get())) }
