package wasm

import (
	"context"
	"time"
)

// Clock is the time that guests see, wait by and are ended by. A test of a plugin has
// one of its own, on which nothing takes time but what waits.
type Clock interface {
	// Now returns the time of the clock. It is called with locks held and must not block.
	Now() time.Time
	// Wait returns when ctx ends, wake is signalled or d has passed; a negative d
	// never passes. It reports whether to look again before d is over. wake may be nil.
	Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool
	// WithTimeout is context.WithTimeout by this clock.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// realClock is the clock of the system.
type realClock struct{}

var _ Clock = realClock{}

// Now implements [Clock].
func (realClock) Now() time.Time { return time.Now() }

// Wait implements [Clock].
func (realClock) Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	return wait(ctx, wake, d)
}

// WithTimeout implements [Clock].
func (realClock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// since is the time that has passed since t.
func (h *Host) since(t time.Time) time.Duration { return h.cfg.Clock.Now().Sub(t) }

// readiness is what a connection may tell of itself: whether a Read would return at
// once. One that does is read by the guest's own goroutine, and needs no pump.
type readiness interface{ Ready() bool }
