package handlers

import (
	"context"
	"errors"
	"fmt"

	"github.com/daeace23/prober/probe"
)

// Inheritor is a [probe.Inheritor]. The [Swap] is not changed or closed while it inherits.
type Inheritor = probe.Inheritor

// Trier is implemented by the handlers that Prepare returns and that can be tried
// without touching what they probe.
type Trier interface {
	probe.Handler
	// Try makes an attempt that has no effect. Its error means that the code is broken;
	// what it would say of a target does not count.
	Try(ctx context.Context) error
}

// ready are the live probes with their handlers in a generation that is to be installed.
type ready map[*held]probe.Handler

// bringUp prepares every live probe with gen, tries it, and installs it. With an error
// nothing has changed. The caller holds s.changing.
func (s *Swap) bringUp(ctx context.Context, gen *generation) (err error) {
	all, heirs := make(ready), make(heirs)
	defer func() {
		if err != nil {
			err = errors.Join(err, gen.abandon(all))
		}
	}()
	for tried := s.Handler() == nil; ; tried = true { // until no probe has come meanwhile
		if err := prepareEach(ctx, gen.handler, s.missing(all), all); err != nil {
			return err
		}
		if !tried {
			if err := tryOne(ctx, gen, all); err != nil {
				return err
			}
		}
		if err := s.inheritEach(all, heirs); err != nil {
			return err
		}
		if done, err := s.install(gen, all, heirs); done || err != nil {
			return err
		}
	}
}

func (s *Swap) missing(all ready) []*held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missingLocked(all)
}

// missingLocked returns the live probes that are not ready.
func (s *Swap) missingLocked(all ready) (missing []*held) {
	for h := range s.live {
		if all[h] == nil {
			missing = append(missing, h)
		}
	}
	return missing
}

// heirs are the probes that are ready and have inherited, with how often what they inherit
// from had itself inherited by then.
type heirs map[*held]int

// inheritEach lets those that are not heirs yet take over from what they will replace.
func (s *Swap) inheritEach(all ready, heirs heirs) error {
	for h, prepared := range all {
		if err := s.inheritOne(h, prepared, heirs); err != nil {
			return h.redacted(err)
		}
	}
	return nil
}

func (s *Swap) inheritOne(h *held, prepared probe.Handler, heirs heirs) error {
	s.inheriting.Lock()
	defer s.inheriting.Unlock()
	if times, ok := heirs[h]; ok && times == h.inherited {
		return nil
	}
	heirs[h] = h.inherited
	return inherit(prepared, h.predecessor())
}

// install installs gen, unless a probe is not ready, or has inherited something since.
func (s *Swap) install(gen *generation, all ready, heirs heirs) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inheriting.Lock()
	defer s.inheriting.Unlock()
	switch {
	case s.closed:
		return false, ErrSwapClosed
	case len(s.missingLocked(all)) > 0:
		return false, nil
	}
	for h := range s.live {
		if heirs[h] != h.inherited {
			return false, nil
		}
	}
	s.installLocked(gen, all, nil)
	return true, nil
}

// prepareEach prepares probes with handler. Its error tells of how many the config is
// refused.
func prepareEach(ctx context.Context, handler probe.Handler, probes []*held, all ready) error {
	var first error
	refused := 0
	for _, h := range probes {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		prepared, err := until(ctx, func() (probe.Handler, error) { return h.prepare(handler) }, probe.Release)
		if err == nil {
			all[h] = prepared
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
func tryOne(ctx context.Context, gen *generation, all ready) error {
	for h, prepared := range all {
		if err := try(ctx, prepared); err != nil {
			return h.redacted(err)
		}
		return nil
	}
	prepared, err := until(ctx, func() (probe.Handler, error) {
		return prepare(gen.handler, []byte("{}"), probe.Target{})
	}, probe.Release)
	if err != nil {
		return context.Cause(ctx) // nil: it needs a config, which nobody has given it yet
	}
	defer gen.release(prepared)
	return try(ctx, prepared)
}

// installLocked lets all live probes go over to gen, for which they are ready; nil is
// no generation. What was there before is closed once its attempts have ended.
func (s *Swap) installLocked(gen *generation, all ready, why error) {
	old := s.current
	var replaced []probe.Handler
	for h := range s.live {
		var next *binding
		if gen != nil {
			next = &binding{gen, all[h]}
		}
		if last := h.swap(next); last != nil {
			replaced = append(replaced, last)
		}
	}
	s.dropDeadLocked(gen, all)
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
