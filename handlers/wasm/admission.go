package wasm

import (
	"context"
	"sync"
	"time"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/wasm/internal/guest"
	"github.com/daeace23/prober/handlers/wasm/internal/memory"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// call is a call of a guest with its shares of the instances and of the memory.
type call struct {
	guest.Call
	plugin  *Handler
	class   sched.Class // history class of the probe
	share   uint64      // share of the host's memory, in bytes
	request probe.Request
}

// calls is a pool of ended calls, because making a call costs as much as calling a small guest.
var calls = sync.Pool{New: func() any { return new(call) }}

// newCall returns a call that begins at start.
func newCall(ctx context.Context, b *bound, req *probe.Request, store *attempt.Store, class sched.Class, start time.Time) *call {
	c := calls.Get().(*call)
	c.plugin, c.class, c.request = b.plugin, class, *req
	c.Init(ctx, &b.plugin.guest, &c.request, b.config, store, start)
	c.Unanswered, c.Told = &b.unanswered, &b.told
	return c
}

// recycle returns an ended call to the pool. The caller must not use the call afterwards.
func (c *call) recycle() {
	if c.Clear() {
		c.plugin, c.class, c.share, c.request = nil, 0, 0, probe.Request{}
		calls.Put(c)
	}
}

// admit acquires the shares that a call needs, and reports whether there was room. The caller
// releases them with leave.
func (c *call) admit() bool {
	if !c.plugin.instances.Acquire(c.class, 1) {
		c.Hit(plugin.LimitInstances)
		return false
	}
	c.share = c.plugin.initialMemory().Share()
	if !c.plugin.host.quota.Acquire(c.class, c.share) {
		c.plugin.instances.Release(c.class, 1)
		c.Hit(plugin.LimitTotalMemory)
		return false
	}
	return true
}

// Holds implements [memory.Holder]. It sets the share of the call to the amount that its instance
// takes.
func (c *call) Holds(taken memory.Amount) {
	share := taken.Share()
	c.plugin.host.quota.Adjust(c.class, c.share, share)
	c.share = share
}

// leave releases the shares of the call.
func (c *call) leave() {
	c.plugin.host.quota.Release(c.class, c.share)
	c.plugin.instances.Release(c.class, 1)
}

// attempt returns the embedded call of c, or nil if c is nil.
func (c *call) attempt() *guest.Call {
	if c == nil {
		return nil
	}
	return &c.Call
}
