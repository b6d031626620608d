package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// active is the part of a check that has a Probe.
type active[K comparable] struct {
	observed *ticks[K]
	restores *check[K]     // the passive check whose ejection a success of this one ends; nil for none
	base     time.Duration // the period of the Spec
	period   time.Duration // the present one, where it is not base
}

// inGroup is the Probe of a check whose probe the group has: it need not be kept twice.
var inGroup = new(group.Probe)

// fixed makes a handler comparable, so that a new period is not taken for a new handler.
type fixed struct{ probe.Handler }

// Unwrap implements [probe.Wrapper].
func (f *fixed) Unwrap() probe.Handler { return f.Handler }

// Probe implements [probe.Handler].
func (f *fixed) Probe(ctx context.Context, r probe.Request) (probe.Outcome, error) {
	return f.Handler.Probe(ctx, r)
}

// addProbes adds and changes the probes of next, and removes the other probes of the endpoint. After an error the probes
// of old run as before.
func (s *Set[K]) addProbes(next, old *entry[K]) error {
	var undo []func()
	for i := range next.checks {
		c := &next.checks[i]
		if c.cfg.Probe == nil {
			continue
		}
		back, err := s.addProbe(c, s.activeNamed(old, c.cfg.Name))
		if err != nil {
			for _, back := range undo {
				back()
			}
			return err
		}
		undo = append(undo, back)
	}
	s.group.RemoveFunc(next.key, func(id group.ID[K]) bool {
		c := next.checkNamed(id.Task)
		return c == nil || c.cfg.Probe == nil
	})
	return nil
}

// addProbe adds the probe of c, or changes the one of before, the check that c replaces. It returns what undoes it.
func (s *Set[K]) addProbe(c, before *check[K]) (undo func(), err error) {
	id := s.id(c.entry.key, c.cfg.Name)
	p := *c.cfg.Probe
	p.Kind = probe.Readiness
	handler := p.Handler
	p.Handler = &fixed{handler}
	undo = func() { s.group.RemoveFunc(id.Key, func(o group.ID[K]) bool { return o == id }) }
	if before != nil {
		now, ok := s.group.Current(id)
		if f, is := now.Handler.(*fixed); ok && is && sameHandler(f.Handler, handler) {
			p.Handler = f
		}
		p.Task, c.observed = cmp.Or(p.Task, now.Task), before.observed
		undo = func() {
			_ = s.group.Update(id.Key, now) // it was accepted before
			before.observed.move(before)
		}
	}
	if p.Task == nil {
		p.Task = s.task(c.entry, c.cfg.Name)
	}
	if err := s.update(c, p); err != nil {
		return nil, err
	}
	if c.observed != nil {
		c.observed.move(c)
	}
	if now, ok := s.group.Current(id); ok {
		s.setBase(c, now.Spec.Period)
	}
	c.cfg.Probe = inGroup
	return undo, nil
}

// setBase sets the period of the Spec. The probe may have begun to tick.
func (s *Set[K]) setBase(c *check[K], period time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.base = period
}

// update adds or changes a probe of the group. Its observer finds c by the subject of the task.
func (s *Set[K]) update(c *check[K], p group.Probe) error {
	subject := p.Task.Subject
	s.mu.Lock()
	taken := s.adding[subject] != nil
	if !taken {
		s.adding[subject] = c
	}
	s.mu.Unlock()
	if taken {
		return fmt.Errorf("check %q: another check with the same Subject: %w", c.cfg.Name, ErrBusy)
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.adding, subject)
	}()
	return s.group.Update(c.entry.key, p)
}

func (s *Set[K]) activeNamed(e *entry[K], name string) *check[K] {
	if e == nil {
		return nil
	}
	if c := e.checkNamed(name); c != nil && c.cfg.Probe != nil && c.observed != nil {
		return c
	}
	return nil
}

// sameHandler reports whether two handlers are equal, and comparable.
func sameHandler(a, b probe.Handler) (same bool) {
	defer func() { _ = recover() }() // handlers that are not comparable
	return a == b
}

// observer is a set as an observer of its group.
type observer[K comparable] Set[K]

// Observe implements [worker.Observer].
func (o *observer[K]) Observe(i worker.Info) worker.ProbeObserver {
	t := &ticks[K]{set: (*Set[K])(o)}
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.adding[i.Subject]; c != nil {
		c.observed, t.check = t, c
	}
	return t
}

// ticks observes the probe of a check.
type ticks[K comparable] struct {
	set  *Set[K]
	rule states.Rule // owned by the ticks
	// Guarded by the mu of the set.
	check *check[K]
	run   int // [worker.Tick.Run] of the last tick
}

var _ worker.GateObserver = (*ticks[int])(nil)

// move makes c the check of the probe.
func (t *ticks[K]) move(c *check[K]) {
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	t.check = c
}

// Tick implements [worker.ProbeObserver].
func (t *ticks[K]) Tick(tick *worker.Tick) {
	t.rule = t.rule.Tick(tick)
	text := tick.Outcome.Output
	if tick.Err != nil {
		text = tick.Err.Error()
	}
	t.update(text, tick)
}

// Skipped implements [worker.ProbeObserver].
func (t *ticks[K]) Skipped(reason worker.SkipReason, n int) {
	t.rule = t.rule.Skipped(reason, n)
	t.update(string(reason), nil)
}

// Gated implements [worker.GateObserver].
func (t *ticks[K]) Gated(gate worker.Gate) {
	t.rule = t.rule.Gated(gate)
	t.update(gate.String(), nil)
}

// Close implements [worker.ProbeObserver].
func (t *ticks[K]) Close() {}

// update stores the state of the probe. tick is nil where no attempt was made.
func (t *ticks[K]) update(text string, tick *worker.Tick) {
	state := t.rule.State()
	s := t.set
	s.mu.Lock()
	c := t.check
	if c == nil || c.gone || s.closed {
		s.mu.Unlock()
		return
	}
	now := time.Now()
	if tick != nil {
		t.run = tick.Run
	}
	if state == states.Success {
		text = ""
	}
	if state != c.state {
		c.setLocked(state, text, now)
		s.planLocked(c)
	} else if state != states.Success {
		c.text = text
	}
	if r := c.restores; r != nil && tick != nil && r.ejected() && tick.Counted && tick.Result == results.Success && tick.Start.After(r.traffic.ejected) {
		r.restoreLocked(now)
	}
	period, change := c.periodLocked(tick)
	id := s.id(c.entry.key, c.cfg.Name)
	s.mu.Unlock()
	if !change {
		return
	}
	hidden := seam.Reveal(s.group)
	if p, at, ok := hidden.Current(id); ok {
		p.Spec.Period = period
		hidden.Replace(at, p, seam.Keep{Run: true, Attempt: true}) // does nothing if Put has changed the probe meanwhile
	}
}

// periodLocked returns the period that the probe should have, and whether that is another one.
func (c *check[K]) periodLocked(tick *worker.Tick) (period time.Duration, change bool) {
	if tick == nil || c.cfg.Unhealthy == 0 && c.cfg.Undecided == 0 {
		return 0, false
	}
	switch {
	case tick.Run < tick.Threshold:
		period = c.cfg.Undecided
	case c.state == states.Failure:
		period = c.cfg.Unhealthy
	}
	if period = cmp.Or(period, c.base); period == cmp.Or(c.period, c.base) {
		return 0, false
	}
	c.period = period
	return period, true
}
