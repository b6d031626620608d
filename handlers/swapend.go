package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/daeace23/prober/probe"
)

const (
	leastDrain = time.Second           // how long the attempts of an old generation may always take
	drainGrace = 10 * time.Millisecond // for those that end at their deadline

	// How long one call of what a generation ends with is waited for. Of one that has not
	// returned by then somebody is told, and it is waited for no more.
	releaseTimeout = 5 * time.Second
	closeTimeout   = 30 * time.Second // a process is asked to end first
)

// errHangs is the error of a call that is not waited for any more.
var errHangs = errors.New("has not returned")

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
		gen.release(prepared...)
		err := errors.Join(gen.fault(), within(closeTimeout, "Close", func() error { return closeHandler(gen.handler) }))
		if s.cfg.Closed != nil {
			_ = within(closeTimeout, "Closed", func() error { // there is nobody left to tell
				s.cfg.Closed(gen.handler, err)
				return nil
			})
		}
	})
}

// dropDeadLocked releases in the background what was made ready for probes that have ended
// meanwhile.
func (s *Swap) dropDeadLocked(gen *generation, all ready) {
	var dead []probe.Handler
	for h, prepared := range all {
		if _, ok := s.live[h]; !ok {
			dead = append(dead, prepared)
		}
	}
	if len(dead) > 0 {
		s.ending.Go(func() { gen.release(dead...) })
	}
}

// release releases handlers of g. What goes wrong is told when g is closed. A generation
// that has once not returned is not called again.
func (g *generation) release(prepared ...probe.Handler) {
	for _, p := range prepared {
		if _, ok := p.(probe.Releaser); !ok || g.hangs.Load() {
			continue
		}
		err := within(releaseTimeout, "Release", func() error {
			probe.Release(p)
			return nil
		})
		if err != nil {
			g.faulty.CompareAndSwap(nil, &err)
			g.hangs.Store(errors.Is(err, errHangs) || g.hangs.Load())
		}
	}
}

// abandon releases all that was made ready for g, which is not installed, and returns what
// went wrong in that.
func (g *generation) abandon(all ready) error {
	for _, prepared := range all {
		g.release(prepared)
	}
	return g.fault()
}

// fault is the first thing that went wrong when handlers of g were released.
func (g *generation) fault() error {
	if err := g.faulty.Load(); err != nil {
		return *err
	}
	return nil
}

// within calls f, which belongs to a handler, and waits for it. A panic, and that it takes
// longer than limit, is an error, which names it.
func within(limit time.Duration, name string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer recovered(&err, name+": ")
		err = f()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("%s %w within %s", name, errHangs, limit)
	}
}

// until calls f, which belongs to a handler, and waits for it until ctx ends. What an f that
// returns later still has made is given to late.
func until[T any](ctx context.Context, f func() (T, error), late func(T)) (T, error) {
	type answer struct {
		made T
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		made, err := f()
		done <- answer{made, err}
	}()
	select {
	case a := <-done:
		return a.made, a.err
	case <-ctx.Done():
		go func() {
			if a := <-done; a.err == nil {
				defer recovered(new(error), "") // there is nobody left to tell
				late(a.made)
			}
		}()
		var none T
		return none, context.Cause(ctx)
	}
}

// recovered is deferred by what calls a handler, and makes its panic an error.
func recovered(err *error, name string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%spanic: %v", name, p)
	}
}

// prepare turns a panic into an error: what a new version does must not end whoever
// replaces the old one.
func prepare(h probe.Handler, config []byte, target probe.Target) (prepared probe.Handler, err error) {
	defer recovered(&err, "")
	if p, ok := h.(probe.Preparer); ok {
		return p.Prepare(config, target)
	}
	if len(config) > 0 && string(config) != "{}" {
		return nil, errors.New("it takes no config")
	}
	return h, nil
}

// try lets h try itself, if it knows how to.
func try(ctx context.Context, h probe.Handler) error {
	t, ok := h.(Trier)
	if !ok {
		return nil
	}
	_, err := until(ctx, func() (_ struct{}, err error) {
		defer recovered(&err, "")
		return struct{}{}, t.Try(ctx)
	}, func(struct{}) {})
	return err
}

// inherit lets h take over from what it replaces, if it knows how to.
func inherit(h, from probe.Handler) (err error) {
	defer recovered(&err, "Inherit: ")
	probe.Inherit(h, from)
	return nil
}

// closeHandler closes h, if that is something to close.
func closeHandler(h probe.Handler) (err error) {
	defer recovered(&err, "")
	if c, ok := h.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
