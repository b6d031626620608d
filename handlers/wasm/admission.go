package wasm

import (
	"context"

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
	plugin *Handler
	class  sched.Class // of the probe
	share  uint64      // of the host's memory
}

func newCall(ctx context.Context, b *bound, req *probe.Request, store *attempt.Store, class sched.Class) *call {
	c := &call{plugin: b.plugin, class: class}
	c.Init(ctx, &b.plugin.guest, req, b.config, store)
	return c
}

// admit takes the shares of a call that is to begin, and reports whether there was room. The
// caller gives them back with leave.
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

// Holds implements [memory.Holder]: the share of the call is what its instance takes now.
func (c *call) Holds(taken memory.Amount) {
	share := taken.Share()
	c.plugin.host.quota.Adjust(c.class, c.share, share)
	c.share = share
}

// leave gives back the shares of the call.
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
