package endpoint

import (
	"fmt"
	"strings"
	"time"
	"unique"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

// check is a check of an endpoint. Put keeps it while it is the same check, and changes its settings. Its
// fields are guarded by the mu of the set.
type check[K comparable] struct {
	set      *Set[K]   // read-only
	name     string    // read-only
	entry    *entry[K] // nil once the check is gone
	settings unique.Handle[settings]
	since    int64 // start of state, in nanoseconds of Unix time
	text     string
	deadline int32 // index in deadlines, with -1 for none
	state    states.State
	rule     states.Rule // of the ticks of a Probe
	run      uint16      // [worker.Tick.Run] of the last tick of a Probe, at most its maximum
	extra    *extra      // nil for a plain probe
}

// settings are the configuration of a check, without its name, Probe, Push or Passive. Few are different, so
// equal ones share memory.
type settings struct {
	weight                       int
	startPeriod                  time.Duration
	thresholds                   Thresholds    // of a Push, or of a Probe with Of
	period, unhealthy, undecided time.Duration // of a Probe
}

// extra is what a plain probe does not have.
type extra struct {
	grace     time.Time // start of StartPeriod; zero once it has ended, or the check has succeeded in it
	streak              // of a Push, or of a Probe with Thresholds
	container string    // that streak is about, of a Probe
	push      *pushes   // nil without a Push
	traffic   *traffic  // nil without a Passive
}

// newCheck returns a new check of e, whose state begins now.
func newCheck[K comparable](s *Set[K], e *entry[K], cfg *Check, now time.Time) *check[K] {
	c := &check[K]{set: s, name: cfg.Name, entry: e, deadline: -1, since: now.UnixNano()}
	if cfg.StartPeriod == 0 && cfg.Thresholds == (Thresholds{}) && cfg.Probe != nil {
		return c
	}
	c.extra = new(extra)
	if cfg.StartPeriod > 0 {
		c.extra.grace = now
	}
	switch {
	case cfg.Passive != nil:
		c.state, c.extra.traffic = states.Success, &traffic{cfg: *cfg.Passive}
	case cfg.Push != nil:
		c.extra.push = &pushes{cfg: *cfg.Push, from: now}
		c.extra.push.cfg.Last = nil
		if last := cfg.Push.Last; last != nil && *last != (PushState{}) {
			c.restore(last, cfg.StartPeriod, now)
		}
	}
	return c
}

// is reports whether c stays the same check with a new configuration.
func (c *check[K]) is(cfg *Check) bool {
	switch push, traffic := c.push(), c.traffic(); {
	case push != nil:
		return cfg.Push != nil && push.cfg.equal(cfg.Push)
	case traffic != nil:
		return cfg.Passive != nil && traffic.cfg == *cfg.Passive
	default:
		return cfg.Probe != nil
	}
}

// configureLocked gives c its settings and its endpoint. restart means that its probe is another one.
func (c *check[K]) configureLocked(e *entry[K], next unique.Handle[settings], restart bool, now time.Time) {
	was := c.settings
	c.entry, c.settings = e, next
	x := next.Value()
	if c.extra == nil && (x.startPeriod > 0 || x.thresholds.Of != 0) {
		c.extra = new(extra)
	}
	switch {
	case c.extra == nil:
		return
	case x.startPeriod == 0:
		c.extra.grace = time.Time{}
	case restart:
		c.extra.grace = now
	}
	if restart || was.Value().thresholds != x.thresholds {
		c.extra.streak = streak{}
	}
}

func (c *check[K]) push() *pushes {
	if c.extra == nil {
		return nil
	}
	return c.extra.push
}

func (c *check[K]) traffic() *traffic {
	if c.extra == nil {
		return nil
	}
	return c.extra.traffic
}

// part returns the check for the rule. A failure in the start period does not count.
func (c *check[K]) part() Part {
	p := Part{Name: c.name, State: c.state, Text: c.text, Weight: c.settings.Value().weight}
	if c.state == states.Failure && c.starting() {
		p.State = states.Unknown
	}
	return p
}

// passes reports whether the state is success or warning.
func (c *check[K]) passes() bool { return c.state == states.Success || c.state == states.Warning }

// starting reports whether StartPeriod has not ended.
func (c *check[K]) starting() bool { return c.extra != nil && !c.extra.grace.IsZero() }

// startEnds returns the end of StartPeriod.
func (c *check[K]) startEnds() time.Time { return c.extra.grace.Add(c.settings.Value().startPeriod) }

// setLocked sets the state of a check, and evaluates the endpoint.
func (c *check[K]) setLocked(state states.State, text string, now time.Time) {
	text = shortened(text)
	same := state == c.state && text == c.text && !c.starting()
	if state != c.state {
		c.state, c.since = state, now.UnixNano()
	}
	if c.passes() && c.starting() {
		c.extra.grace = time.Time{}
	}
	if c.text = text; !same && c.entry != nil {
		c.set.evaluateLocked(c.entry, now, false)
	}
}

// shortened returns text with at most [states.MaxText] bytes, without the memory of a longer one.
func shortened(text string) string {
	if len(text) <= states.MaxText {
		return text
	}
	return strings.Clone(clip.Bytes(text, states.MaxText))
}

func (c *check[K]) status() CheckStatus {
	st := CheckStatus{Name: c.name, State: c.state, Since: time.Unix(0, c.since), Text: c.text, Run: int(c.run)}
	if at, ok := c.next(); ok {
		st.Next = at
	}
	if c.push() != nil {
		st.Push, st.Run = c.pushState(), int(c.extra.run)
	}
	if t := c.traffic(); t != nil {
		st.Overflow, st.Run = t.overflow, t.run
		st.Outcomes, st.Failures = t.count(&t.cfg, time.Now())
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
	if p := c.push(); p != nil && !p.late {
		earliest(p.cfg.due(p.from))
		if p.cfg.MaxRun > 0 && !p.started.IsZero() {
			earliest(p.started.Add(p.cfg.MaxRun))
		}
	}
	if t := c.traffic(); t != nil {
		earliest(t.ends())
	}
	if c.starting() {
		earliest(c.startEnds())
	}
	return at, ok
}

// expireLocked makes the changes that are due at now.
func (c *check[K]) expireLocked(now time.Time) {
	if p := c.push(); p != nil && !p.late {
		due := p.cfg.due(p.from)
		switch {
		case p.cfg.MaxRun > 0 && !p.started.IsZero() && !now.Before(p.started.Add(p.cfg.MaxRun)):
			c.missLocked(fmt.Sprintf("has run for %v without a report", p.cfg.MaxRun), now)
		case !due.IsZero() && !now.Before(due):
			c.missLocked(p.cfg.missing(due), now)
		}
	}
	if t := c.traffic(); t != nil && !t.ends().IsZero() && !now.Before(t.ends()) {
		c.restoreLocked(now)
	}
	if c.starting() && !now.Before(c.startEnds()) {
		c.extra.grace = time.Time{}
		c.set.evaluateLocked(c.entry, now, false)
	}
}

func (c *check[K]) missLocked(text string, now time.Time) {
	c.extra.push.late, c.extra.streak = true, streak{failed: 1, run: 1, seen: 1}
	c.setLocked(states.Failure, text, now)
}

// Report adds a result to a pushed check.
func (s *Set[K]) Report(key K, name string, o probe.Outcome) error {
	return s.pushed(key, name, func(c *check[K], now time.Time) {
		p := c.extra.push
		p.from, p.started, p.reported, p.late = now, time.Time{}, true, false
		text := strings.ToValidUTF8(o.Output, "\uFFFD") // as JSON has it, for PushState
		state := states.Unknown
		switch o.Result {
		case probe.Success:
			state = states.Success
		case probe.Warning:
			state = states.Warning
		case probe.Failure:
			state = states.Failure
		}
		if state != states.Unknown {
			state = c.extra.streak.add(c.settings.Value().thresholds, c.state, state)
		}
		switch {
		case state == states.Success:
			text = ""
		case state == states.Failure && o.Result == probe.Success:
			text = c.text // more successes must follow: the failure keeps its cause
		}
		c.setLocked(state, text, now)
	})
}

// Started tells that a run has begun whose report will follow. With [Push.MaxRun] the check fails if it does
// not.
func (s *Set[K]) Started(key K, name string) error {
	return s.pushed(key, name, func(c *check[K], now time.Time) { c.extra.push.started = now })
}

func (s *Set[K]) pushed(key K, name string, change func(*check[K], time.Time)) error {
	found := s.with(key, name, func(c *check[K], now time.Time) bool {
		if c.push() == nil {
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

// with calls do for a check, with mu held. It returns the result of do, and false for a check that does not
// exist.
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
		t := c.traffic()
		if t == nil {
			return false
		}
		if t.add(ok, now) && !t.isEjected() {
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
	t := c.traffic()
	if !c.entry.pool.allowsEjection() {
		t.overflow++
		return
	}
	text := fmt.Sprintf("ejected after %d failures in a row", t.run)
	if n := t.cfg.Consecutive; n == 0 || t.run < n {
		text = fmt.Sprintf("ejected: at least %.3g %% of the outcomes within %v fail", 100*t.cfg.Ratio, t.cfg.Window)
	}
	t.eject(now)
	c.entry.pool.countEjected(1)
	c.setLocked(states.Failure, text, now)
	s.planLocked(c)
}

// restoreLocked ends an ejection.
func (c *check[K]) restoreLocked(now time.Time) {
	c.traffic().restore(now)
	c.entry.pool.countEjected(-1)
	c.setLocked(states.Success, "", now)
}
