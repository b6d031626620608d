package wasm

import (
	"context"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/memory"
	"github.com/daeace23/prober/plugin"
)

// LoadAs is Load of a module of which it is said, and not found out, whether a reset
// leaves something behind.
func LoadAs(ctx context.Context, h *Host, found plugin.Found, volatile bool) (*Handler, error) {
	p, err := h.admit(found)
	if err == nil {
		p.module.Volatile, p.module.Features = volatile, api.CoreFeaturesV2
		err = p.load(ctx)
	}
	if err != nil {
		p.closeRuntime()
	}
	return p, err
}

// IsReset reports whether the instances of p are used again after a reset.
func IsReset(p *Handler) bool { return p.reset }

// Compiling returns how many compilations of h are under way.
func Compiling(h *Host) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.compilations
}

// Closed reports whether Close of h has begun.
func Closed(h *Host) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// WaitForCompilers waits for the compilations that nobody waits for any more.
func WaitForCompilers(h *Host) { h.compilers.Wait() }

// FreeSlots returns how many guests more may compute.
func FreeSlots(h *Host) int { return h.guests.Slots.Free() }

// LimitCompilers sets what each compilation of h may take.
func LimitCompilers(h *Host, most time.Duration, memory uint64) {
	h.compilerLimits = compilerLimits{most, memory}
}

// StackOf returns the size of the stack of an idle instance of p.
func StackOf(p *Handler) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return memory.StackOf(p.idle[0].probe)
}
