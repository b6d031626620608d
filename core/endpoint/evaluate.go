package endpoint

import (
	"slices"
	"time"

	"github.com/daeace23/prober/core/states"
)

// evaluateLocked computes the state of e, and tells readers and dependents if it has changed.
func (s *Set[K]) evaluateLocked(e *entry[K], now time.Time, first bool) {
	if s.endpoints[e.key] != e {
		return // it is being put, or is gone
	}
	if f := e.forced; f != nil && !f.Until.IsZero() && !now.Before(f.Until) {
		e.forced = nil
		s.deadlines.remove(&e.deadline)
	}
	d, blocked := s.decideLocked(e)
	usable := d.State == states.Success || d.State == states.Warning
	if f := e.forced; f != nil {
		usable = f.Mode == Up
	}
	c := Change[K]{Key: e.key, From: e.state, To: d.State, Time: now, Reason: d.Reason, Deciding: d.Deciding, Usable: usable}
	changed := first || d.State != e.state || d.Reason != e.reason || usable != e.usable
	wasDown := e.down()
	if d.State != e.state || first {
		e.since = now.UnixNano()
	}
	e.state, e.reason, e.blocked, e.usable = d.State, d.Reason, blocked, usable
	if changed {
		s.emitLocked(&c)
	}
	if wasDown != e.down() || first {
		s.evaluateDependentsLocked(e.key, now)
	}
}

func (s *Set[K]) evaluateDependentsLocked(key K, now time.Time) {
	for d := range s.dependents[key] {
		s.evaluateLocked(d, now, false)
	}
}

// down reports whether endpoints that depend on e cannot work.
func (e *entry[K]) down() bool { return e.state == states.Failure || e.blocked }

// decideLocked returns the state of e: the rule's, unless an endpoint that e depends on or a forced state
// changes it. blocked means that a failure is unknown because of another endpoint.
func (s *Set[K]) decideLocked(e *entry[K]) (d Decision, blocked bool) {
	d = e.decide()
	if d.State == states.Failure {
		if blocker, ok := s.blockerLocked(e); ok {
			d.State, d.Reason, blocked = states.Unknown, "depends on "+blocker.name+", which fails", true
		}
	}
	f := e.forced
	if f == nil {
		return d, blocked
	}
	d.Reason = f.text()
	switch f.Mode {
	case Up:
		d.State, d.Deciding, blocked = states.Success, nil, false
	case Down:
		d.State, d.Deciding, blocked = states.Failure, nil, false
	}
	return d, blocked
}

// decide returns what the rule makes of the checks. Before they have decided a state, it is the initial one.
func (e *entry[K]) decide() Decision {
	var room [8]Part
	parts := slices.Grow(room[:0], len(e.checks))
	for _, c := range e.checks {
		parts = append(parts, c.part())
	}
	d := e.rule.Decide(parts)
	switch {
	case d.State != states.Unknown:
		e.decided = true
	case !e.decided && e.initial == states.Success:
		return Decision{State: states.Success}
	case !e.decided:
		d.State = e.initial
	}
	return d
}

func (f *Forced) text() string {
	text := f.Mode.String()
	if f.By != "" {
		text += " by " + f.By
	}
	if f.Why != "" {
		text += ": " + f.Why
	}
	return text
}
