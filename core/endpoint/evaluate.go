package endpoint

import (
	"hash/maphash"
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
	var room [8]Part
	v := s.verdictLocked(e, room[:0])
	usable := v.state == states.Success || v.state == states.Warning
	if f := e.forced; f != nil {
		usable = f.Mode == Up
	}
	hash := s.fingerprint(e, &v)
	changed := first || v.state != e.state || hash != e.hash || usable != e.usable
	from, wasDown := e.state, e.down()
	if v.state != e.state || first {
		e.since = now.UnixNano()
	}
	e.state, e.hash, e.blocked, e.usable = v.state, hash, v.blocker != nil, usable
	if changed {
		s.emitLocked(e.key, pending{from: from, at: now.UnixNano()})
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

// verdict is what decides the state of an endpoint.
type verdict[K comparable] struct {
	parts    []Part
	deciding states.State // of the parts that decide ruled
	ruled    states.State // the rule's; before the checks have decided a state, the initial one
	state    states.State // ruled, unless an endpoint that it depends on or a forced state changes it
	blocker  *entry[K]    // the endpoint whose failure makes state unknown; nil for none
}

// verdictLocked returns the verdict about e. It appends the parts to room.
func (s *Set[K]) verdictLocked(e *entry[K], room []Part) verdict[K] {
	v := verdict[K]{parts: slices.Grow(room, len(e.checks))}
	for _, c := range e.checks {
		v.parts = append(v.parts, c.part())
	}
	v.ruled = e.rule.state(v.parts)
	v.deciding = v.ruled
	switch {
	case v.ruled != states.Unknown:
		e.decided = true
	case e.decided:
	case e.initial == states.Success:
		v.ruled, v.deciding = states.Success, states.Success
	default:
		v.ruled = e.initial
	}
	v.state = v.ruled
	if f := e.forced; f != nil && f.Mode != Drained {
		v.state = states.Success
		if f.Mode == Down {
			v.state = states.Failure
		}
		return v
	}
	if v.ruled == states.Failure {
		if v.blocker = s.blockerLocked(e); v.blocker != nil {
			v.state = states.Unknown
		}
	}
	return v
}

// fingerprint returns a hash of what the reason of a verdict is made of: it differs if the reasons do.
func (s *Set[K]) fingerprint(e *entry[K], v *verdict[K]) uint64 {
	switch {
	case e.forced != nil:
		return maphash.String(s.seed, e.forced.text())
	case v.blocker != nil:
		return maphash.String(s.seed, v.blocker.name)
	default:
		return e.rule.fingerprint(s.seed, v.parts, v.deciding)
	}
}

// explainLocked returns the reason of the state of e, and the names of the checks that decide it.
func (s *Set[K]) explainLocked(e *entry[K]) (reason string, deciding []string) {
	var room [8]Part
	v := s.verdictLocked(e, room[:0])
	if f := e.forced; f != nil && f.Mode != Drained {
		return f.text(), nil
	}
	d := e.rule.explain(v.parts, v.deciding)
	switch {
	case e.forced != nil:
		d.Reason = e.forced.text()
	case v.blocker != nil:
		d.Reason = "depends on " + v.blocker.name + ", which fails"
	}
	return d.Reason, d.Deciding
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
