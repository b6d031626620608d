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
	// closed, with the error of that. It may be nil.
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

// Inheritor is implemented by the handlers that Prepare returns and that take something
// over from the one that they replace: a probe's store, say.
type Inheritor interface {
	probe.Handler
	// Inherit is called once, before the first attempt. from may have an attempt under
	// way, and is of any type.
	Inherit(from probe.Handler)
}

// Trier is implemented by the handlers that Prepare returns and that can be tried
// without touching what they probe.
type Trier interface {
	probe.Handler
	// Try makes an attempt that has no effect. Its error means that the code is broken;
	// what it would say of a target does not count.
	Try(ctx context.Context) error
}

// Replace makes h the handler behind s. It prepares every live probe with h, and, where
// there is another handler that would be lost, lets one of them try h if h knows how to
// ([Trier]). With an error nothing has changed, and h is still the caller's to close.
func (s *Swap) Replace(ctx context.Context, h probe.Handler) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	ready := make(map[*held]probe.Handler)
	err := s.bringUp(ctx, newGeneration(h), ready)
	if err != nil {
		releaseAll(ready)
	}
	return err
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

// Close implements [io.Closer]. It waits for the attempts under way.
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

// bringUp prepares every live probe with gen, tries it, and installs it. ready holds
// what is prepared.
func (s *Swap) bringUp(ctx context.Context, gen *generation, ready map[*held]probe.Handler) error {
	for tried := s.Handler() == nil; ; tried = true { // until no probe has come meanwhile
		if err := prepareEach(ctx, gen.handler, s.missing(ready), ready); err != nil {
			return err
		}
		if !tried {
			if err := tryOne(ctx, gen.handler, ready); err != nil {
				return err
			}
		}
		if done, err := s.install(gen, ready); done || err != nil {
			return err
		}
	}
}

func (s *Swap) missing(ready map[*held]probe.Handler) []*held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missingLocked(ready)
}

// missingLocked returns the live probes that are not ready.
func (s *Swap) missingLocked(ready map[*held]probe.Handler) (missing []*held) {
	for h := range s.live {
		if ready[h] == nil {
			missing = append(missing, h)
		}
	}
	return missing
}

// install installs gen, unless a probe is not ready.
func (s *Swap) install(gen *generation, ready map[*held]probe.Handler) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return false, ErrSwapClosed
	case len(s.missingLocked(ready)) > 0:
		return false, nil
	}
	s.installLocked(gen, ready, nil)
	return true, nil
}

// prepareEach prepares probes with handler. Its error tells of how many the config is
// refused.
func prepareEach(ctx context.Context, handler probe.Handler, probes []*held, ready map[*held]probe.Handler) error {
	var first error
	refused := 0
	for _, h := range probes {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		prepared, err := prepare(handler, h.config, h.target)
		if err == nil {
			ready[h] = prepared
			continue
		}
		if refused++; first == nil {
			first = h.redacted(err)
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, probe.ErrNoSlot) {
			break // each of the others would take as long
		}
	}
	if first != nil {
		return fmt.Errorf("the configs of %d of %d probes are refused: %w", refused, len(probes), first)
	}
	return nil
}

// redactedText is an error without secrets.
type redactedText struct {
	err  error
	text string
}

func (e *redactedText) Error() string { return e.text }
func (e *redactedText) Unwrap() error { return e.err }

// tryOne lets one of the probes that are ready try its handler; where there is none, a
// probe without a config, if the handler takes that.
func tryOne(ctx context.Context, handler probe.Handler, ready map[*held]probe.Handler) error {
	for h, prepared := range ready {
		if err := try(ctx, prepared); err != nil {
			return h.redacted(err)
		}
		return nil
	}
	prepared, err := prepare(handler, []byte("{}"), probe.Target{})
	if err != nil {
		return nil // it needs a config, which nobody has given it yet
	}
	defer probe.Release(prepared)
	return try(ctx, prepared)
}

// installLocked lets all live probes go over to gen, for which they are ready; nil is
// no generation. What was there before is closed once its attempts have ended.
func (s *Swap) installLocked(gen *generation, ready map[*held]probe.Handler, why error) {
	old := s.current
	var replaced []probe.Handler
	for h := range s.live {
		var next *binding
		if gen != nil {
			next = &binding{gen, ready[h]}
		}
		if last := h.swap(next); last != nil {
			replaced = append(replaced, last)
		}
	}
	for h, prepared := range ready { // of probes that have ended meanwhile
		if _, ok := s.live[h]; !ok {
			probe.Release(prepared)
		}
	}
	if s.shadow != nil && s.shadow.gen == gen {
		replaced = append(replaced, s.takeShadowLocked()...)
	}
	if s.current, s.why = gen, why; gen != nil {
		s.number++
	}
	if old != nil {
		s.endLocked(old, replaced)
	}
}

const (
	leastDrain = time.Second           // how long the attempts of an old generation may always take
	drainGrace = 10 * time.Millisecond // for those that end at their deadline
)

// endLocked closes a generation in the background, when its attempts have ended.
func (s *Swap) endLocked(gen *generation, prepared []probe.Handler) {
	drained := gen.retire()
	s.ending.Go(func() {
		timer := time.NewTimer(max(time.Duration(s.longest.Load()), leastDrain) + drainGrace)
		defer timer.Stop()
		select {
		case <-drained:
		case <-timer.C:
		}
		for _, p := range prepared {
			probe.Release(p)
		}
		err := closeHandler(gen.handler)
		if s.cfg.Closed != nil {
			s.cfg.Closed(gen.handler, err)
		}
	})
}

// Prepare implements [probe.Preparer]. What it returns is a [probe.Releaser].
func (s *Swap) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	h := &held{of: s, config: slices.Clone(config), target: target}
	for {
		gen, err := s.enter()
		if err != nil {
			return nil, err
		}
		prepared, err := prepare(gen.handler, h.config, target)
		if err != nil {
			gen.leave()
			return nil, err
		}
		done := s.admit(h, gen, prepared)
		gen.leave()
		if done {
			s.addShadow(h)
			return h, nil
		}
		probe.Release(prepared)
	}
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
	gen, err := s.enter()
	if err != nil {
		return probe.Outcome{}, err
	}
	defer gen.leave()
	s.note(req.Spec.Timeout)
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

// prepare turns a panic into an error: what a new version does must not end whoever
// replaces the old one.
func prepare(h probe.Handler, config []byte, target probe.Target) (prepared probe.Handler, err error) {
	defer recovered(&err)
	if p, ok := h.(probe.Preparer); ok {
		return p.Prepare(config, target)
	}
	if len(config) > 0 && string(config) != "{}" {
		return nil, errors.New("it takes no config")
	}
	return h, nil
}

// try lets h try itself, if it knows how to.
func try(ctx context.Context, h probe.Handler) (err error) {
	defer recovered(&err)
	if t, ok := h.(Trier); ok {
		return t.Try(ctx)
	}
	return nil
}

// recovered is deferred by what calls a handler, and makes its panic an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

func releaseAll(ready map[*held]probe.Handler) {
	for _, h := range ready {
		probe.Release(h)
	}
}

func closeHandler(h probe.Handler) error {
	if c, ok := h.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
