package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// plan is the work of Put for one check.
type plan[K comparable] struct {
	check    *check[K] // new, or the present one
	stays    bool      // check is the present one
	settings unique.Handle[settings]
	probe    *group.Probe // complete; nil without a Probe
	restart  bool         // the present check has had another probe
}

// Put adds an endpoint, or replaces it. A check of the same name and kind keeps its state and results: a
// probe by the rules of [group.Group.Update], a pushed or passive one if it has the same configuration.
// [Check.StartPeriod] begins for new checks, and for a probe whose Handler, Name, Spec or Target has changed.
// An error leaves everything as it was, and is a [*group.FieldError] about the configuration, or an error of
// the group about a probe.
func (s *Set[K]) Put(key K, e Endpoint[K]) error {
	if err := s.put(key, &e); err != nil {
		return fmt.Errorf("endpoint %v: %w", key, err)
	}
	return nil
}

func (s *Set[K]) put(key K, e *Endpoint[K]) error {
	if err := e.check(key, s.pools); err != nil {
		return err
	}
	dependsOn := slices.Clone(e.DependsOn)
	old, err := s.begin(key, dependsOn)
	if err != nil {
		return err
	}
	defer s.done(key)
	now := time.Now()
	next := &entry[K]{
		key: key, name: fmt.Sprint(key), rule: e.Rule, dependsOn: dependsOn, pool: s.pools[e.Pool], state: e.Initial, initial: e.Initial,
		since: now.UnixNano(), deadline: -1,
	}
	plans := s.plan(next, old, e.Checks, now)
	if err := s.prepare(next, plans, e.Checks); err != nil {
		return err
	}
	if err := s.addProbes(next, old, plans); err != nil {
		s.forget(plans)
		return err
	}
	s.commit(next, old, plans, now)
	return nil
}

// begin reserves an endpoint for a change, and returns its present entry.
func (s *Set[K]) begin(key K, dependsOn []K) (old *entry[K], err error) {
	s.mu.Lock()
	_, busy := s.changing[key]
	closed := s.closed
	through, cycle := s.cycleLocked(key, dependsOn)
	if !busy && !closed && !cycle {
		s.changing[key] = dependsOn
	}
	old = s.endpoints[key]
	s.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case busy:
		return nil, ErrBusy
	case cycle:
		return nil, invalid("DependsOn", "%v depends on this endpoint", through)
	}
	return old, nil
}

func (s *Set[K]) done(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.changing, key)
}

// plan returns what to do with the checks of next, which takes over checks of old.
func (s *Set[K]) plan(next, old *entry[K], checks []Check, now time.Time) []plan[K] {
	plans := make([]plan[K], len(checks))
	next.checks = make([]*check[K], len(checks))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range checks {
		p, cfg := &plans[i], &checks[i]
		if old != nil {
			p.check = old.checkNamed(cfg.Name)
		}
		if p.stays = p.check != nil && p.check.is(cfg); !p.stays {
			p.check = newCheck(s, next, cfg, now)
		}
		next.checks[i] = p.check
		next.untilCheck = next.untilCheck || cfg.Passive != nil && cfg.Passive.UntilCheck != ""
	}
	return plans
}

// prepare completes and checks the probes and the settings of plans, and changes nothing.
func (s *Set[K]) prepare(e *entry[K], plans []plan[K], checks []Check) error {
	for i := range plans {
		p, cfg := &plans[i], &checks[i]
		x := settings{
			weight: cmp.Or(cfg.Weight, 1), startPeriod: cfg.StartPeriod, thresholds: cfg.Thresholds,
			unhealthy: cfg.Unhealthy, undecided: cfg.Undecided,
		}
		if cfg.Push != nil {
			x.thresholds = cfg.Push.Thresholds
		}
		if cfg.Probe != nil {
			if err := s.prepareProbe(e, p, cfg); err != nil {
				return err
			}
			x.period = p.probe.Spec.Period
		}
		if p.settings = unique.Make(x); !p.stays {
			p.check.settings = p.settings
		}
	}
	return nil
}

// prepareProbe sets the probe of a plan.
func (s *Set[K]) prepareProbe(e *entry[K], p *plan[K], cfg *Check) error {
	next := *cfg.Probe
	next.Kind = probe.Readiness
	if p.stays && next.Task == nil {
		if now, ok := s.group.Current(s.id(e.key, cfg.Name)); ok {
			next.Task = now.Task
		}
	}
	if next.Task == nil {
		next.Task = s.task(e, cfg.Name)
	}
	next, err := seam.Reveal(s.group).Checked(e.key, next)
	p.probe = &next
	return err
}

// task returns a task for a check. Its Subject is unique.
func (s *Set[K]) task(e *entry[K], name string) *worker.Task {
	s.mu.Lock()
	s.sequence++
	n := s.sequence
	s.mu.Unlock()
	id := fmt.Sprintf("%s/%s/%d", e.name, name, n)
	t := &worker.Task{Subject: results.Subject{Pod: e.name, PodUID: id, Container: name}}
	t.SetState(worker.Running(id, time.Now()))
	return t
}

// addProbes adds and changes the probes of plans, and removes the other probes of the endpoint. After an
// error the probes of before run as before.
func (s *Set[K]) addProbes(e, old *entry[K], plans []plan[K]) error {
	var undo []func()
	for i := range plans {
		p := &plans[i]
		if p.probe == nil {
			continue
		}
		back, err := s.addProbe(e.key, p)
		if err != nil {
			for _, back := range undo {
				back()
			}
			return err
		}
		undo = append(undo, back)
	}
	if old == nil {
		return nil
	}
	s.group.RemoveFunc(e.key, func(id group.ID[K]) bool {
		return !slices.ContainsFunc(plans, func(p plan[K]) bool { return p.probe != nil && p.check.name == id.Task })
	})
	return nil
}

// addProbe adds the probe of a plan, or changes the present one. It returns what undoes it.
func (s *Set[K]) addProbe(key K, p *plan[K]) (undo func(), err error) {
	id := s.id(key, p.probe.Task.Subject.Container)
	undo = func() { s.group.RemoveFunc(key, func(o group.ID[K]) bool { return o == id }) }
	if now, ok := s.group.Current(id); ok && p.stays {
		now.Spec.Period = p.check.settings.Value().period // a tick may have changed it
		undo = func() { _ = s.group.Update(key, now) }    // it was accepted before
		same := now
		same.Paused, same.Tag = p.probe.Paused, p.probe.Tag
		p.restart = !seam.Reveal(s.group).Equal(&same, p.probe)
	}
	return undo, s.update(key, p)
}

// update adds or changes a probe of the group. The observer of the set finds a check by the subject of its
// task.
func (s *Set[K]) update(key K, p *plan[K]) error {
	subject := p.probe.Task.Subject
	s.mu.Lock()
	taken := s.adding[subject] != nil
	if !taken {
		s.adding[subject] = p.check
	}
	s.mu.Unlock()
	if taken {
		return fmt.Errorf("check %q: another check with the same Subject: %w", subject.Container, ErrBusy)
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.adding, subject)
	}()
	return s.group.Update(key, *p.probe)
}

// forget drops the new checks of plans that were not carried out.
func (s *Set[K]) forget(plans []plan[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range plans {
		if p := &plans[i]; !p.stays {
			s.dropCheckLocked(p.check)
		}
	}
}

// commit replaces old, which may be nil, by next.
func (s *Set[K]) commit(next, old *entry[K], plans []plan[K], now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old != nil {
		s.unlinkLocked(old)
		old.countLocked(-1)
		next.state, next.since, next.hash, next.usable, next.decided, next.forced = old.state, old.since, old.hash, old.usable, old.decided, old.forced
	}
	for i := range plans {
		p := &plans[i]
		p.check.configureLocked(next, p.settings, p.restart, now)
	}
	if old != nil {
		s.dropChecksLocked(old)
	}
	s.endpoints[next.key] = next
	s.linkLocked(next)
	next.countLocked(1)
	for _, c := range next.checks {
		s.planLocked(c)
	}
	s.planForcedLocked(next)
	s.evaluateLocked(next, now, old == nil)
	s.evaluateDependentsLocked(next.key, now)
}

// Remove removes an endpoint and its checks. Endpoints that depend on it no longer do. The error is
// [ErrBusy].
func (s *Set[K]) Remove(key K) error {
	_, err := s.begin(key, nil)
	if errors.Is(err, ErrClosed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("endpoint %v: %w", key, err)
	}
	defer s.done(key)
	s.group.Remove(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[key]
	if e == nil {
		return nil
	}
	s.unlinkLocked(e)
	e.countLocked(-1)
	s.dropChecksLocked(e)
	delete(s.endpoints, key)
	now := time.Now()
	s.emitLocked(key, pending{from: e.state, at: now.UnixNano(), removed: true})
	s.evaluateDependentsLocked(key, now)
	return nil
}

// countLocked adds e to its pool, or takes it from there.
func (e *entry[K]) countLocked(by int) {
	if e.pool == nil {
		return
	}
	e.pool.size += by
	for _, c := range e.checks {
		if t := c.traffic(); t != nil && t.isEjected() {
			e.pool.countEjected(by)
		}
	}
}

// dropChecksLocked drops the checks of e that belong to no newer entry, and its deadline.
func (s *Set[K]) dropChecksLocked(e *entry[K]) {
	for _, c := range e.checks {
		if c.entry == e {
			s.dropCheckLocked(c)
		}
	}
	s.deadlines.remove(&e.deadline)
}

func (s *Set[K]) dropCheckLocked(c *check[K]) {
	c.entry = nil
	s.deadlines.remove(&c.deadline)
}
