package wasm

import (
	"github.com/daeace23/prober/handlers/wasm/internal/memory"
	"github.com/daeace23/prober/plugin"
)

// admit takes the share of a call that is to begin, and reports whether there is one.
// leave gives it back.
func (c *call) admit() bool {
	if !c.plugin.instances.Acquire(c.class, 1) {
		c.hit(plugin.LimitInstances)
		return false
	}
	c.share = c.plugin.initialMemory().Share()
	if !c.host.quota.Acquire(c.class, c.share) {
		c.plugin.instances.Release(c.class, 1)
		c.hit(plugin.LimitTotalMemory)
		return false
	}
	return true
}

// holds notes what the memory of the call's instance takes of the budget now: an instance
// may have grown in an earlier call, and grows in this one.
func (c *call) holds(taken memory.Amount) {
	share := taken.Share()
	c.host.quota.Adjust(c.class, c.share, share)
	c.share = share
}

func (c *call) leave() {
	c.host.quota.Release(c.class, c.share)
	c.plugin.instances.Release(c.class, 1)
}
