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

// call is a call of a guest with what it holds of the plugin and the host.
type call struct {
	*guest.Call
	plugin *Handler
	class  sched.Class // of the probe
	share  uint64      // of the host's memory, while it is admitted
}

func newCall(ctx context.Context, b *bound, req *probe.Request, store *attempt.Store, class sched.Class) *call {
	return &call{Call: guest.New(ctx, &b.plugin.guest, req, b.config, store), plugin: b.plugin, class: class}
}

// admit takes the share of a call that is to begin, and reports whether there is one.
// leave gives it back.
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

// holds notes what the memory of the call's instance takes of the budget now: an instance
// may have grown in an earlier call, and grows in this one.
func (c *call) holds(taken memory.Amount) {
	share := taken.Share()
	c.plugin.host.quota.Adjust(c.class, c.share, share)
	c.share = share
}

func (c *call) leave() {
	c.plugin.host.quota.Release(c.class, c.share)
	c.plugin.instances.Release(c.class, 1)
}

// attempt returns the guest's part of c, which may be nil.
func (c *call) attempt() *guest.Call {
	if c == nil {
		return nil
	}
	return c.Call
}
