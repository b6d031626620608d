package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/probe"
)

// SwapConfig configures a [Swap].
type SwapConfig struct {
	// Name is the handler's name, which is told in errors.
	Name string
	// Closed is called once for every handler that was replaced or withdrawn, when it is
	// closed, with the error of that, or of letting go of its probes: what it returned, or
	// that it has panicked, or has not returned in time. It may be nil.
	Closed func(h probe.Handler, err error)
	// ShadowAttempts is how many attempts of a shadow may be under way at a time; 0
	// means 8. See [Swap.Shadow].
	ShadowAttempts int
}

// Swap is a handler whose code is replaced while probes use it. What stands behind it
// at one time is a generation: any handler, which Swap owns and closes.
//
// [Swap.Replace] holds the configs of all live probes against the new handler before
// anything changes. Then all of them go over to it at once: an attempt runs in one
// generation from beginning to end, the next one begins in the new. The schedule, the
// thresholds and the decided results of a probe have no part in that. The old
// generation is closed when its last attempt has ended, at the latest after the longest
// timeout that a probe has asked for.
//
// A probe lives from Prepare until the [probe.Releaser] that Prepare returns is released.
// Swap is safe for concurrent use.
type Swap struct {
	cfg       SwapConfig
	longest   atomic.Int64 // timeout, of all attempts so far
	shadowing shadowCounts
	ending    sync.WaitGroup // generations that are being closed

	changing sync.Mutex // held by whoever replaces, withdraws or promotes: one at a time

	inheriting sync.Mutex // held while a probe takes something over; taken after mu

	mu      sync.Mutex
	current *generation // nil: there is none
	why     error       // there is none
	number  int
	live    map[*held]struct{}
	shadow  *shadow // nil: none
	closed  bool
}

var (
	_ probe.Preparer = (*Swap)(nil)
	_ io.Closer      = (*Swap)(nil)
)

// ErrSwapClosed is the error of a Swap that is closed.
var ErrSwapClosed = errors.New("the handler is closed")

var errNothingYet = errors.New("nothing has been loaded yet")

// NewSwap returns a Swap without a generation: its probes end in an error until
// [Swap.Replace].
func NewSwap(cfg SwapConfig) *Swap {
	if cfg.ShadowAttempts <= 0 {
		cfg.ShadowAttempts = 8
	}
	return &Swap{cfg: cfg, live: make(map[*held]struct{}), why: errNothingYet}
}

// Replace makes h the handler behind s. It prepares every live probe with h, and, where
// there is another handler that would be lost, lets one of them try h if h knows how to
// ([Trier]). With an error nothing has changed, and h is still the caller's to close.
//
// Withdraw, Unload, Shadow, Unshadow, Promote and Close wait until Replace has returned:
// h must not call them, or Replace, while it is prepared, tried or inherits.
func (s *Swap) Replace(ctx context.Context, h probe.Handler) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.bringUp(ctx, newGeneration(h))
}

// Withdraw takes the handler away. Until there is another, probes end in an error that
// wraps why, so that their decided results stay as they are.
func (s *Swap) Withdraw(why error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropShadowLocked()
	s.installLocked(nil, nil, why)
}

// Unload takes the handler away as [Swap.Withdraw] does, unless there is a live probe, and
// reports whether it did.
func (s *Swap) Unload(why error) bool {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.live) > 0 {
		return false
	}
	s.dropShadowLocked()
	s.installLocked(nil, nil, why)
	return true
}

// Close implements [io.Closer]. It waits for the attempts under way, and for handlers
// that are being closed, but for ever for none of them.
func (s *Swap) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Withdraw(ErrSwapClosed)
	s.ending.Wait()
	return nil
}

// Handler returns the handler behind s; nil when there is none.
func (s *Swap) Handler() probe.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil
	}
	return s.current.handler
}

// Current returns the handler behind s, nil when there is none, and how many there have
// been.
func (s *Swap) Current() (h probe.Handler, generation int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		h = s.current.handler
	}
	return h, s.number
}

// Generation returns how many handlers there have been.
func (s *Swap) Generation() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.number
}

// Live returns how many probes there are.
func (s *Swap) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// Prepare implements [probe.Preparer]. What it returns is a [probe.Releaser].
func (s *Swap) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	h := &held{of: s, config: slices.Clone(config), target: target}
	for {
		gen, err := s.enter()
		if err != nil {
			return nil, err
		}
		prepared, err := h.prepare(gen.handler)
		if err != nil {
			gen.leave()
			if s.isOver(gen) { // what it says, or its end, is of no account
				continue
			}
			return nil, err
		}
		done := s.admit(h, gen, prepared)
		gen.leave()
		if done {
			s.addShadow(h)
			return h, nil
		}
		gen.release(prepared)
	}
}

// isOver reports whether there is another generation than gen by now, or none.
func (s *Swap) isOver(gen *generation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != gen
}

// admit counts h among the live, if gen is still what its handler was prepared with.
func (s *Swap) admit(h *held, gen *generation, prepared probe.Handler) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != gen {
		return false
	}
	h.bound.Store(&binding{gen, prepared})
	s.live[h] = struct{}{}
	return true
}

// enter returns the present generation with an attempt counted in.
func (s *Swap) enter() (*generation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, s.goneLocked()
	}
	s.current.enter()
	return s.current, nil
}

// Probe implements [probe.Handler] for probes that were not prepared.
func (s *Swap) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	s.note(req.Spec.Timeout)
	gen, err := s.enter()
	if err != nil {
		return probe.Outcome{}, err
	}
	defer gen.leave()
	return gen.handler.Probe(ctx, req)
}

// note remembers the longest timeout.
func (s *Swap) note(timeout time.Duration) {
	for {
		longest := s.longest.Load()
		if int64(timeout) <= longest || s.longest.CompareAndSwap(longest, int64(timeout)) {
			return
		}
	}
}

func (s *Swap) gone() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.goneLocked()
}

func (s *Swap) goneLocked() error {
	return &probe.Error{Reason: probe.ReasonInstantiate, Err: fmt.Errorf("plugin %q: %w", s.cfg.Name, s.why)}
}

// forget takes a probe off the live ones, and reports whether it was one.
func (s *Swap) forget(h *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.live[h]
	delete(s.live, h)
	return ok
}
