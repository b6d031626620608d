package wasm

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
)

// grace is how long a guest may go on after its deadline if that came while it waited for
// the host: time to return, so that its instance is reset instead of thrown away, which
// costs hundreds of times as much. Of what the guest does then nothing counts and nothing
// leaves the host.
const grace = 10 * time.Millisecond

// leash holds the guest of a call that may have a grace. Such a guest runs on a goroutine
// of its own, and whoever wants its answer waits for that or for the deadline.
type leash struct {
	end chan struct{} // closed when the guest is to end; nil where there is no grace

	mu       sync.Mutex
	away     bool          // the guest waits for the host
	late     bool          // the deadline came meanwhile: the probe has its verdict, or will at once
	stopped  bool          // end is closed
	returned bool          // the guest has: nothing is to end any more
	waited   time.Duration // for a place or an instance, all together
	asked    time.Time     // since when it waits for a place; zero: it does not
	did      doings
	hung     *doings // when the time was over; nil: the guest was ended
	trouble  error   // of the agent's own host, which kept a connection from being made; nil: none
}

// mayWait reports whether the plugin's guests can wait for the host.
func (p *Handler) mayWait() bool {
	return slices.ContainsFunc(p.module.imports, func(module string) bool { return module == wasiModule || outward(module) })
}

// outward reports whether the functions of an import module reach out of the host.
func outward(module string) bool {
	return module == abi.ModuleNet || module == abi.ModuleHTTP || module == abi.ModuleDNS
}

// hasGrace reports whether the guest may go on after the deadline. Where somebody looks
// inside it may not, for that is done on the goroutine of the attempt; nor on the clock of
// a test, where nothing happens beside an attempt.
func (c *call) hasGrace() bool {
	_, bounded := c.ctx.Deadline()
	_, real := c.host.cfg.Clock.(realClock)
	return bounded && real && c.req.Trace == nil && c.plugin.reset && c.plugin.waits
}

// ending is how an attempt ended.
type ending struct {
	out   probe.Outcome
	err   error
	panic any
	late  bool // it came after the deadline
}

// besides carries out the attempt on a goroutine of its own, and returns its answer, or
// late when the deadline came first and the guest has its grace: then the goroutine, for
// which [Handler.Close] waits, gives back by itself what the attempt holds.
func (b *bound) besides(c *call, in *instance, start time.Time) (a ending, late bool) {
	c.end = make(chan struct{})
	done := make(chan ending, 1)
	go func() {
		var a ending
		defer func() {
			a.panic = recover()
			c.comeBack()                                       // it has not if it panicked; that it is late is settled with that
			if a.late = c.isLate(); a.panic != nil && a.late { // whoever asked may have gone
				c.host.cfg.Logger.Error("an attempt panicked after its deadline", "handler", c.plugin.manifest.Name)
			}
			done <- a
		}()
		a.out, a.err = b.carryOut(c, in, start)
	}()
	select {
	case a = <-done:
	case <-c.ctx.Done():
		if c.overdue() {
			return ending{}, true
		}
		a = <-done
	}
	if a.panic != nil && !a.late {
		panic(a.panic)
	}
	return a, a.panic != nil
}

// overdue is called when the call's context has ended. It reports whether the guest has
// its grace, and otherwise ends it.
func (c *call) overdue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != context.DeadlineExceeded || !c.late && (c.returned || !c.away) {
		c.stopLocked()
		return false
	}
	c.late = true
	c.hangsLocked()
	deadline, _ := c.ctx.Deadline()
	time.AfterFunc(time.Until(deadline)+grace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stopLocked()
	})
	return true
}

// stop has the guest end at its next branch, if it still runs.
func (c *call) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopLocked()
}

// stopLocked has the guest end at its next branch, if it still runs.
func (c *call) stopLocked() {
	if !c.stopped && !c.returned {
		c.stopped = true
		close(c.end)
	}
}

// stepOut notes that the guest waits for the host from now on.
func (c *call) stepOut(w waiting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = true
	c.waitsLocked(w)
}

// stepIn notes that the guest goes on, and reports whether it is late. What it was asked
// then belongs to the caller again.
func (c *call) stepIn() bool {
	ended := c.ended()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = false
	c.goesOnLocked(ended)
	if c.end != nil && ended == context.DeadlineExceeded {
		c.late = true
		c.hangsLocked()
	}
	if c.late {
		c.req = &probe.Request{}
	}
	return c.late
}

// comeBack notes that the guest has returned, and reports whether it did so by itself and
// was not ended.
func (c *call) comeBack() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.returned = true
	return c.end != nil && !c.stopped
}

// isAway reports whether the guest waits for the host.
func (c *call) isAway() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away
}

// isLate reports whether nothing counts any more of what the guest does.
func (c *call) isLate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late
}

// until is the context of what the guest waits for: the call's, and in its grace the one
// that it runs under.
func (c *call) until() context.Context {
	if c.isLate() {
		return withCall(c.ctx, c)
	}
	return c.ctx
}

// inTime is f, a function that reaches out of the host, until the deadline. The guest may
// call it after that, for it is ended only when the runtime comes to know.
func inTime(f hostFunc) hostFunc {
	return func(c *call, mem api.Memory, a args) (r int64) {
		over := c.stepIn() || c.ended() != nil
		if !over {
			r = f(c, mem, a)
		}
		if over || c.isLate() {
			r = int64(c.fail(abi.ETIMEDOUT, "the deadline has passed"))
		}
		return r
	}
}

// Done implements [context.Context].
func (c *callContext) Done() <-chan struct{} {
	if c.call.end != nil {
		return c.call.end
	}
	return c.Context.Done()
}

// Err implements [context.Context].
func (c *callContext) Err() error {
	if c.call.end == nil {
		return c.Context.Err()
	}
	select {
	case <-c.call.end:
		return context.Canceled
	default:
		return nil
	}
}
