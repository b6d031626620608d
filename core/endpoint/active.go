package endpoint

import (
	"cmp"
	"math"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// observer is a set as an observer of its group.
type observer[K comparable] Set[K]

// Observe implements [worker.Observer]. A check observes its probe.
func (o *observer[K]) Observe(i worker.Info) worker.ProbeObserver {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.adding[i.Subject]
	if c == nil {
		return nil
	}
	c.rule = states.First(&i) // the probe is new, even if the check is not
	if c.state == states.Unknown {
		c.state = c.rule.State()
	}
	return c
}

var _ worker.GateObserver = (*check[int])(nil)

// Tick implements [worker.ProbeObserver].
func (c *check[K]) Tick(t *worker.Tick) {
	text := t.Outcome.Output
	if t.Err != nil {
		text = t.Err.Error()
	}
	c.set.adjust(c.step(text, t, false, func(r states.Rule) states.Rule { return r.Tick(t) }))
}

// Skipped implements [worker.ProbeObserver].
func (c *check[K]) Skipped(reason worker.SkipReason, n int) {
	c.set.adjust(c.step(string(reason), nil, false, func(r states.Rule) states.Rule { return r.Skipped(reason, n) }))
}

// Gated implements [worker.GateObserver].
func (c *check[K]) Gated(gate worker.Gate) {
	c.step(gate.String(), nil, gate == worker.NotRunning, func(r states.Rule) states.Rule { return r.Gated(gate) })
}

// Close implements [worker.ProbeObserver].
func (c *check[K]) Close() {}

// pace is how a probe should tick from now on.
type pace[K comparable] struct {
	id     group.ID[K]
	period time.Duration // 0: as it is
}

// step stores the state of the probe after a tick; t is nil where no attempt was made, and stopped means that
// the task does not run.
func (c *check[K]) step(text string, t *worker.Tick, stopped bool, next func(states.Rule) states.Rule) pace[K] {
	s := c.set
	s.mu.Lock()
	defer s.mu.Unlock()
	c.rule = next(c.rule)
	if c.entry == nil || s.closed {
		return pace[K]{}
	}
	x, now := c.settings.Value(), time.Now()
	if t != nil {
		c.run = uint16(min(t.Run, math.MaxUint16))
	}
	state := c.rule.State()
	if x.thresholds.Of != 0 && !(stopped && c.rule.Decided()) {
		state = c.windowedLocked(x.thresholds, t)
	}
	if state == states.Success {
		text = ""
	}
	passed := t != nil && t.Counted && t.Result == results.Success
	switch {
	case state != c.state, passed && c.starting():
		c.setLocked(state, text, now)
		s.planLocked(c)
	case state != states.Success:
		c.text = shortened(text)
	}
	if passed && c.entry.untilCheck {
		c.entry.restoreLocked(c.name, t.Start, now)
	}
	return pace[K]{s.id(c.entry.key, c.name), c.periodLocked(&x, t)}
}

// windowedLocked returns the state by the last results, for a probe with Thresholds. A tick without a verdict
// is no result, and three of them in a row make the state unknown, as for every probe.
func (c *check[K]) windowedLocked(th Thresholds, t *worker.Tick) states.State {
	if t == nil || !t.Counted {
		if c.rule.Blind() {
			return states.Unknown
		}
		return c.state
	}
	if x := c.extra; x.container != t.ContainerID {
		x.container, x.streak = t.ContainerID, streak{} // another run of the task
	}
	result := states.Success
	switch {
	case t.Result == results.Failure:
		result = states.Failure
	case t.Err == nil && t.Outcome.Result == probe.Warning:
		result = states.Warning
	}
	return c.extra.streak.add(th, c.state, result)
}

// restoreLocked ends the ejections of e that wait for a success of the named check, in a tick that began
// after them.
func (e *entry[K]) restoreLocked(name string, start, now time.Time) {
	for _, c := range e.checks {
		if t := c.traffic(); t != nil && t.isEjected() && t.cfg.UntilCheck == name && start.After(t.ejected) {
			c.restoreLocked(now)
		}
	}
}

// periodLocked returns the period that the probe should have after a tick; 0 means the present one.
func (c *check[K]) periodLocked(x *settings, t *worker.Tick) (period time.Duration) {
	if t == nil || x.unhealthy == 0 && x.undecided == 0 {
		return 0
	}
	undecided := t.Run < t.Threshold
	if x.thresholds.Of != 0 {
		undecided = t.Counted && (t.Result == results.Failure) != (c.state == states.Failure)
	}
	switch {
	case undecided:
		period = x.undecided
	case c.state == states.Failure:
		period = x.unhealthy
	}
	return cmp.Or(period, x.period)
}

// adjust gives a probe another pace. It does nothing if Put changes the probe meanwhile: the next tick does
// it then.
func (s *Set[K]) adjust(to pace[K]) {
	if to.period == 0 {
		return
	}
	hidden := seam.Reveal(s.group)
	if p, at, ok := hidden.Current(to.id); ok && p.Spec.Period != to.period {
		p.Spec.Period = to.period
		hidden.Replace(at, p, seam.Keep{Run: true, Attempt: true})
	}
}
