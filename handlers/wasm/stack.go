package wasm

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"unsafe"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/internal/abi"
)

// The stack of a guest is memory of this process, which grows as the guest recurses.
// wazero neither tells of it nor has a bound of its own below stackCeiling.
const (
	stackCeiling = 100 << 20 // twice that from which on wazero grows it no more
	freeStack    = 64 << 10  // bytes that are not counted: a guest that recurses little needs no more
)

// stackOf is how large the stack of the call of fn is. wazero keeps the stack in a field of
// its own; where there is none by this name, the stack may be as large as it gets. While the
// guest computes, the length that is read may be that of a moment ago.
//
//go:norace
func stackOf(fn api.Function) uint64 {
	engine := reflect.ValueOf(fn)
	if engine.Kind() != reflect.Pointer || engine.Elem().Kind() != reflect.Struct {
		return stackCeiling
	}
	engine = engine.Elem()
	i := stackField(engine.Type())
	if i < 0 {
		return stackCeiling
	}
	stack := engine.Field(i)
	header := (*[3]uintptr)(unsafe.Pointer(stack.UnsafeAddr())) // a pointer, the length and the capacity
	return uint64(header[1]) * uint64(stack.Type().Elem().Size())
}

var stackFields sync.Map // of reflect.Type to the index of its field; -1 where it has none

func stackField(engine reflect.Type) int {
	if i, ok := stackFields.Load(engine); ok {
		return i.(int)
	}
	i := -1
	if f, ok := engine.FieldByName("stack"); ok && len(f.Index) == 1 && f.Type.Kind() == reflect.Slice {
		i = f.Index[0]
	}
	stackFields.Store(engine, i)
	return i
}

var errStack = errors.New("its stack takes more memory than there is")

// run is a function of a guest that is under way.
type run struct {
	fn     api.Function
	memory *memory
	deep   bool // it was ended for its stack; guarded by runs.mu while the guest runs
}

// runs are the runs of a host. Of those that wait for the host the stack is counted; of the
// others only as many go on as there are processors, as long as all have large stacks.
type runs struct {
	mu  sync.Mutex
	all map[*call]struct{}
}

func (r *runs) begin(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[*call]struct{})
	}
	r.all[c] = struct{}{}
}

func (r *runs) done(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, c)
}

// enter calls fn of the guest for c.
func (in *instance) enter(ctx context.Context, c *call, fn api.Function, stack []uint64) error {
	c.run = run{fn: fn, memory: in.memory}
	defer c.watch()()
	c.host.runs.begin(c)
	err := fn.CallWithStack(ctx, stack)
	c.host.runs.done(c)
	if c.run.deep && err != nil {
		in.memory.starved = true
		return errStack
	}
	return err
}

// boundStacks reports whether one guest more may run than there are processors: none where
// the stacks of those that compute take more than a quarter of the memory. Then it ends the
// guest with the largest.
func (h *Host) boundStacks() bool {
	if h.cfg.Interpreter { // it has 2000 frames at most
		return true
	}
	h.runs.mu.Lock()
	defer h.runs.mu.Unlock()
	var sum, largest uint64
	var deepest *call
	for c := range h.runs.all {
		if c.isWaiting() {
			continue
		}
		n := stackOf(c.run.fn)
		if sum += n; n > largest {
			largest, deepest = n, c
		}
	}
	if sum <= h.budget.size()/4 || largest <= freeStack {
		return true
	}
	deepest.run.deep = true
	deepest.stop()
	return false
}

// countStack counts the guest's stack in the budget, now that it is going to wait for the
// host: then any number of guests may have one. A guest for whose stack there is no room
// is ended.
func (c *call) countStack() {
	if m := c.run.memory; m != nil && !m.growStack(stackOf(c.run.fn)) {
		panic(errStack) // wazero returns it from the call of the guest
	}
}

// growStack counts a stack of n bytes, and reports whether there is room for it.
func (m *memory) growStack(n uint64) bool {
	n -= min(n, freeStack)
	if n <= m.stack {
		return true
	}
	if !m.budget.take(whole(n - m.stack)) {
		m.starved = true
		return false
	}
	m.stack = n
	m.call.holds(m.all())
	return true
}

// shrinkStack gives back the stack of a call that has ended: the next one begins with a
// small one.
func (in *instance) shrinkStack() {
	if !in.plugin.command && stackOf(in.probe) > freeStack {
		in.probe = in.module.ExportedFunction(abi.ExportProbe)
	}
	in.memory.dropStack()
}

func (m *memory) dropStack() {
	if m.stack > 0 {
		m.budget.put(whole(m.stack))
		m.stack = 0
	}
}
