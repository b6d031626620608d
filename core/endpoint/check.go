package endpoint

import (
	"fmt"
	"reflect"
	"time"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

// check is a check of an endpoint. Its fields are guarded by the mu of the set, but for rule.
type check[K comparable] struct {
	entry *entry[K]
	cfg   *Check

	state    states.State
	gone     bool
	starting bool  // StartPeriod has not ended, and the check has not succeeded in it
	deadline int32 // index in deadlines, with -1 for none
	since    time.Time
	text     string

	active[K]
	push    *pushes  // of a pushed check
	traffic *traffic // of a passive check
}

// pushes is what a pushed check knows.
type pushes struct {
	streak
	last PushState
	from time.Time // of the present wait for a report
	late bool      // no report came in time
}

// begin sets the state of a new check.
func (c *check[K]) begin(now time.Time) {
	c.since, c.starting = now, c.cfg.StartPeriod > 0
	switch {
	case c.cfg.Passive != nil:
		c.state, c.traffic = states.Success, new(traffic)
	case c.cfg.Push != nil:
		c.push = &pushes{from: now}
		if last := c.cfg.Push.Last; last != nil {
			c.push.last = *last
			if !last.Report.IsZero() {
				c.push.from = last.Report
			}
		}
	}
}

// inherit takes over what an older check of the same name knows.
func (c *check[K]) inherit(old *check[K]) {
	if old == nil || (c.cfg.Probe != nil) != (old.cfg.Probe != nil) || !samePush(c.cfg.Push, old.cfg.Push) || !reflect.DeepEqual(c.cfg.Passive, old.cfg.Passive) {
		return
	}
	c.state, c.since, c.text = old.state, old.since, old.text
	c.starting = c.starting && c.state != states.Success && c.state != states.Warning
	c.push, c.traffic = old.push, old.traffic
}

// samePush reports whether two configurations are equal but for what an earlier agent knew.
func samePush(a, b *Push) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Last, y.Last = nil, nil
	return reflect.DeepEqual(x, y)
}

// vote returns the state of the check for the rule.
func (c *check[K]) vote() states.State {
	if c.state == states.Failure && c.starting {
		return states.Unknown
	}
	return c.state
}

// setLocked sets the state of a check, and evaluates the endpoint.
func (c *check[K]) setLocked(state states.State, text string, now time.Time) {
	if state == states.Success || state == states.Warning {
		c.starting = false
	}
	if state != c.state {
		c.state, c.since = state, now
	}
	c.text = clip.Bytes(text, states.MaxText)
	if !c.gone {
		c.entry.set.evaluateLocked(c.entry, now, false)
	}
}

func (c *check[K]) ejected() bool { return c.traffic != nil && !c.traffic.ejected.IsZero() }

func (c *check[K]) status() CheckStatus {
	st := CheckStatus{Name: c.cfg.Name, State: c.state, Since: c.since, Text: c.text}
	if at, ok := c.next(); ok {
		st.Next = at
	}
	switch {
	case c.observed != nil:
		st.Run = c.observed.run
	case c.push != nil:
		st.Push, st.Run = new(c.push.last), int(c.push.run)
	case c.traffic != nil:
		st.Overflow, st.Run = c.traffic.overflow, c.traffic.run
		st.Outcomes, st.Failures = c.traffic.count(c.cfg.Passive, time.Now())
	}
	return st
}

// next returns the time at which the check changes by itself.
func (c *check[K]) next() (at time.Time, ok bool) {
	earliest := func(t time.Time) {
		if !t.IsZero() && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	if p := c.cfg.Push; p != nil {
		if !c.push.late {
			earliest(p.due(c.push.from))
		}
		if p.MaxRun > 0 && !c.push.last.Started.IsZero() && !c.push.late {
			earliest(c.push.last.Started.Add(p.MaxRun))
		}
	}
	if c.ejected() && c.cfg.Passive.UntilCheck == "" {
		earliest(c.traffic.until)
	}
	if c.starting {
		earliest(c.entry.put.Add(c.cfg.StartPeriod))
	}
	return at, ok
}

// expireLocked makes the changes that are due at now.
func (c *check[K]) expireLocked(now time.Time) {
	if p := c.cfg.Push; p != nil && !c.push.late {
		due := p.due(c.push.from)
		switch started := c.push.last.Started; {
		case p.MaxRun > 0 && !started.IsZero() && !now.Before(started.Add(p.MaxRun)):
			c.miss(fmt.Sprintf("has run for %v without a report", p.MaxRun), now)
		case !due.IsZero() && !now.Before(due):
			c.miss(c.missing(due), now)
		}
	}
	if c.ejected() && c.cfg.Passive.UntilCheck == "" && !now.Before(c.traffic.until) {
		c.restoreLocked(now)
	}
	if c.starting && !now.Before(c.entry.put.Add(c.cfg.StartPeriod)) {
		c.starting = false
		c.entry.set.evaluateLocked(c.entry, now, false)
	}
}

func (c *check[K]) miss(text string, now time.Time) {
	c.push.late = true
	c.push.streak = streak{last: states.Failure, run: 1, failed: 1, seen: 1}
	c.setLocked(states.Failure, text, now)
}

// missing returns what to say of a report that was due.
func (c *check[K]) missing(due time.Time) string {
	if p := c.cfg.Push; p.Schedule != nil {
		return "no report for the time " + due.Add(-p.Grace).Format("2006-01-02 15:04 MST")
	}
	return fmt.Sprintf("no report for %v", c.cfg.Push.TTL)
}

// Report adds a result to a pushed check.
func (s *Set[K]) Report(key K, name string, o probe.Outcome) error {
	return s.pushed(key, name, func(c *check[K], now time.Time) {
		c.push.last, c.push.from, c.push.late = PushState{Report: now}, now, false
		state := states.Unknown
		switch o.Result {
		case probe.Success:
			state = states.Success
		case probe.Warning:
			state = states.Warning
		case probe.Failure:
			state = states.Failure
		}
		if state == states.Unknown {
			c.setLocked(states.Unknown, o.Output, now)
			return
		}
		next := c.push.add(c.cfg.Push.Thresholds, c.state, state)
		text := o.Output
		if next == states.Success {
			text = ""
		}
		c.setLocked(next, text, now)
	})
}

// Started tells that a run has begun whose report will follow. With [Push.MaxRun] the check fails if it does not.
func (s *Set[K]) Started(key K, name string) error {
	return s.pushed(key, name, func(c *check[K], now time.Time) { c.push.last.Started = now })
}

func (s *Set[K]) pushed(key K, name string, change func(*check[K], time.Time)) error {
	found := s.with(key, name, func(c *check[K], now time.Time) bool {
		if c.push == nil {
			return false
		}
		change(c, now)
		s.planLocked(c)
		return true
	})
	if !found {
		return fmt.Errorf("endpoint %v, pushed check %q: %w", key, name, ErrNotFound)
	}
	return nil
}

// with calls do for a check, with mu held. It returns the result of do, and false for a check that does not exist.
func (s *Set[K]) with(key K, name string, do func(c *check[K], now time.Time) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[key]
	if e == nil {
		return false
	}
	c := e.checkNamed(name)
	return c != nil && do(c, time.Now())
}

// Observe adds the outcome of a request of real traffic to a passive check.
func (s *Set[K]) Observe(key K, name string, ok bool) error {
	found := s.with(key, name, func(c *check[K], now time.Time) bool {
		if c.traffic == nil {
			return false
		}
		if c.traffic.add(c.cfg.Passive, ok, now) && !c.ejected() {
			s.ejectLocked(c, now)
		}
		return true
	})
	if !found {
		return fmt.Errorf("endpoint %v, passive check %q: %w", key, name, ErrNotFound)
	}
	return nil
}

// ejectLocked begins an ejection, if the pool allows it.
func (s *Set[K]) ejectLocked(c *check[K], now time.Time) {
	if !s.allowsEjectionLocked(c.entry) {
		c.traffic.overflow++
		return
	}
	text := fmt.Sprintf("ejected after %d failures in a row", c.traffic.run)
	if n := c.cfg.Passive.Consecutive; n == 0 || c.traffic.run < n {
		text = fmt.Sprintf("ejected: at least %.3g %% of the outcomes within %v fail", 100*c.cfg.Passive.Ratio, c.cfg.Passive.Window)
	}
	c.traffic.eject(c.cfg.Passive, now)
	s.countEjected(c.entry, 1)
	c.setLocked(states.Failure, text, now)
	s.planLocked(c)
}

// restoreLocked ends an ejection.
func (c *check[K]) restoreLocked(now time.Time) {
	c.traffic.restore(now)
	c.entry.set.countEjected(c.entry, -1)
	c.setLocked(states.Success, "", now)
}
