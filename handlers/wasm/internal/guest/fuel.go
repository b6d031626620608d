package guest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
)

// A guest that computes cannot be preempted: until it asks for more fuel, it holds up the garbage
// collector, and with it every probe. So it gets its fuel in slices.
const (
	// largestSlice takes 20 µs or less, unless instructions are slow.
	largestSlice = 40_000
	leastSlice   = largestSlice / 64

	// longSlice is how long a slice may take before the next ones are smaller.
	longSlice = 100 * time.Microsecond
)

// ownCalls is after how many calls of the host a metered guest is checked: most of them cost
// more time than their fuel.
const ownCalls = 16

// meter is the fuel of a metered guest. It belongs to the goroutine of the call, except stopped.
type meter struct {
	fuel    api.MutableGlobal // what is left of the slices; nil if the guest is not metered
	stopped atomic.Bool       // the guest is to be ended
	slice   int64             // the size of the current slice
	since   time.Time         // when it began, or when a wait after that ended
	granted int64             // all slices of the run
}

// Meter makes fuel, of the instance of w, the fuel of its calls.
func (w *World) Meter(fuel api.MutableGlobal) { w.fuel = fuel }

// AddFuel gives a runtime the import of a metered module.
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

// unwindIfOver panics if the guest is to be ended, or its call has ended.
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

// begin gives the guest its first slice.
func (m *meter) begin(fuel api.MutableGlobal, now time.Time) {
	m.fuel, m.slice, m.since, m.granted = fuel, largestSlice, now, largestSlice
	fuel.Set(largestSlice)
}

// used returns how many units the run took.
func (m *meter) used() uint64 { return uint64(m.granted - int64(m.fuel.Get())) }
