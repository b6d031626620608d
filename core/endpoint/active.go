package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// active is the part of a check that has a Probe.
type active[K comparable] struct {
	observed *ticks[K]
	restores *check[K] // the passive check whose ejection a success of this one ends; nil for none
	added    group.Probe
	period   time.Duration // the present one
}

// fixed makes a handler comparable, so that a new period is not taken for a new handler.
type fixed struct{ probe.Handler }

// Unwrap implements [probe.Wrapper].
func (f *fixed) Unwrap() probe.Handler { return f.Handler }

// Probe implements [probe.Handler].
func (f *fixed) Probe(ctx context.Context, r probe.Request) (probe.Outcome, error) {
	return f.Handler.Probe(ctx, r)
}

// addProbes adds and changes the probes of next, and removes those of old that next does not have. After an error the
// probes of old run as before.
func (s *Set[K]) addProbes(next, old *entry[K]) error {
	for i := range next.checks {
		c := &next.checks[i]
		if c.cfg.Probe == nil {
			continue
		}
		p := *c.cfg.Probe
		p.Kind, p.Handler = probe.Readiness, &fixed{p.Handler}
		if before := s.activeNamed(old, c.cfg.Name); before != nil {
			if sameHandler(before.added.Handler.(*fixed).Handler, c.cfg.Probe.Handler) {
				p.Handler = before.added.Handler
			}
			p.Task = cmp.Or(p.Task, before.added.Task)
			c.observed = before.observed
		}
		if p.Task == nil {
			p.Task = s.task(next, c.cfg.Name)
		}
		c.added = p
		if err := s.addProbe(c); err != nil {
			s.restoreProbes(next, old, i)
			return err
		}
		if c.observed != nil {
			c.observed.move(c)
		}
	}
	s.group.RemoveFunc(next.key, func(id group.ID[K]) bool {
		c := next.checkNamed(id.Task)
		return c == nil || c.cfg.Probe == nil
	})
	return nil
}

// addProbe adds or changes the probe of c. Its observer finds c by the subject of the task.
func (s *Set[K]) addProbe(c *check[K]) error {
	subject := c.added.Task.Subject
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
	return s.group.Update(c.entry.key, c.added)
}

// restoreProbes undoes what addProbes has done for the checks before n.
func (s *Set[K]) restoreProbes(next, old *entry[K], n int) {
	for i := range n {
		c := &next.checks[i]
		if c.cfg.Probe == nil {
			continue
		}
		before := s.activeNamed(old, c.cfg.Name)
		if before == nil {
			s.group.RemoveFunc(next.key, func(id group.ID[K]) bool { return id.Task == c.cfg.Name })
			continue
		}
		_ = s.group.Update(next.key, before.added) // it was accepted before
		before.observed.move(before)
	}
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
	p, change := c.periodLocked(tick)
	key := c.entry.key
	s.mu.Unlock()
	if change {
		_ = s.group.Update(key, p) // fails only if the probe has ended meanwhile
	}
}

// periodLocked returns the probe with the period that it should have, and whether that is another one.
func (c *check[K]) periodLocked(tick *worker.Tick) (p group.Probe, change bool) {
	if tick == nil || c.cfg.Unhealthy == 0 && c.cfg.Undecided == 0 {
		return p, false
	}
	var period time.Duration
	switch {
	case tick.Run < tick.Threshold:
		period = c.cfg.Undecided
	case c.state == states.Failure:
		period = c.cfg.Unhealthy
	}
	if period = cmp.Or(period, c.added.Spec.Period); period == c.period {
		return p, false
	}
	c.period = period
	p = c.added
	p.Spec.Period = period
	return p, true
}
