package wasm

import (
	"context"
	"errors"
	"sync"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/memory"
	"github.com/daeace23/prober/internal/abi"
)

var errStack = errors.New("its stack takes more memory than there is")

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
		in.memory.Starve()
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
		n := memory.StackOf(c.run.fn)
		if sum += n; n > largest {
			largest, deepest = n, c
		}
	}
	if sum <= h.budget.Total()/4 || largest <= memory.FreeStack {
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
	if m := c.run.memory; m != nil && !m.GrowStack(memory.StackOf(c.run.fn)) {
		panic(errStack) // wazero returns it from the call of the guest
	}
}

// shrinkStack gives back the stack of a call that has ended: the next one begins with a
// small one.
func (in *instance) shrinkStack() {
	if !in.plugin.command && memory.StackOf(in.probe) > memory.FreeStack {
		in.probe = in.module.ExportedFunction(abi.ExportProbe)
	}
	in.memory.DropStack()
}
