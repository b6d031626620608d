package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Errors of the methods of a [Set].
var (
	ErrNotFound = errors.New("no such endpoint or check")
	// ErrBusy is returned by Put and Remove while another one of them changes the same endpoint, as when a callback of the
	// first calls the second.
	ErrBusy   = errors.New("the endpoint is being changed")
	ErrClosed = group.ErrClosed
)

// Config configures a [Set]. The zero value works.
type Config struct {
	// Group configures the group that runs probes. Its Observers observe the ticks of all checks.
	Group group.Config
	Pools map[string]Pool
}

// Set owns endpoints. It is safe for concurrent use. Its methods, except [Set.Shutdown], do not wait for attempts. They call
// handlers, observers and publishers with no lock held.
type Set[K comparable] struct {
	group *group.Group[K]
	pools map[string]*pool

	mu         sync.Mutex
	changing   map[K][]K                     // endpoints that Put or Remove changes, with their new DependsOn
	adding     map[results.Subject]*check[K] // whose probes are being added
	endpoints  map[K]*entry[K]
	dependents map[K]map[*entry[K]]struct{}
	readers    map[*reader[K]]struct{}
	deadlines  deadlines[K]
	sequence   uint64
	closed     bool
	wake       chan struct{} // tells the goroutine of deadlines that the first one has changed
	ended      chan struct{}
}

type pool struct {
	Pool
	size, ejected int
}

// entry is an endpoint of a set.
type entry[K comparable] struct {
	set    *Set[K]
	key    K
	name   string // the key as text
	put    time.Time
	cfg    Endpoint[K]
	checks []check[K]

	state    states.State
	since    time.Time
	reason   string
	decided  bool // the checks have decided a state since Put
	blocked  bool // its failure counts as unknown, because of an endpoint that it depends on
	usable   bool
	forced   *Forced
	deadline int32 // index of the end of forced in deadlines, with -1 for none
}

// Forced is a state that somebody has set.
type Forced struct {
	Mode ForcedMode
	By   string // who
	Why  string
	// Until is the end; the zero value means until [Set.Release].
	Until time.Time
}

// ForcedMode is how an endpoint is forced.
type ForcedMode uint8

// All modes.
const (
	// Up makes the state success.
	Up ForcedMode = iota + 1
	// Down makes the state failure.
	Down
	// Drained leaves the state to the checks, and makes the endpoint not usable.
	Drained
)

var forcedWords = [...]string{Up: "up", Down: "down", Drained: "drained"}

// String returns the word for m.
func (m ForcedMode) String() string {
	if m < Up || m > Drained {
		return "not forced"
	}
	return forcedWords[m]
}

// New returns a set without endpoints.
func New[K comparable](cfg Config) (*Set[K], error) {
	s := &Set[K]{
		pools: make(map[string]*pool), endpoints: make(map[K]*entry[K]), dependents: make(map[K]map[*entry[K]]struct{}),
		changing: make(map[K][]K), adding: make(map[results.Subject]*check[K]), readers: make(map[*reader[K]]struct{}), wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	for name, p := range cfg.Pools {
		if !(p.MaxEjected >= 0 && p.MaxEjected <= 1) || !(p.Panic <= 1) {
			return nil, invalid("Config.Pools", "%q: shares must be at most 1, and MaxEjected from 0", name)
		}
		p.MaxEjected, p.Panic = cmp.Or(p.MaxEjected, 0.1), cmp.Or(p.Panic, 0.5)
		s.pools[name] = &pool{Pool: p}
	}
	cfg.Group.Observers = append(slices.Clone(cfg.Group.Observers), (*observer[K])(s))
	var err error
	if s.group, err = group.New[K](cfg.Group); err != nil {
		return nil, err
	}
	go s.expire()
	return s, nil
}

// Put adds an endpoint, or replaces it. A check of the same name and kind keeps its state and results: a probe by the rules
// of [group.Group.Update], a pushed or passive one if it has the same configuration. An error leaves everything as it was,
// and is a [*group.FieldError] about the configuration, or an error of the group about a probe.
func (s *Set[K]) Put(key K, e Endpoint[K]) error {
	e.Checks, e.DependsOn = slices.Clone(e.Checks), slices.Clone(e.DependsOn)
	if err := e.check(key, s.pools); err != nil {
		return fmt.Errorf("endpoint %v: %w", key, err)
	}
	old, err := s.begin(key, e.DependsOn)
	if err != nil {
		return fmt.Errorf("endpoint %v: %w", key, err)
	}
	defer s.done(key)
	now := time.Now()
	next := s.newEntry(key, e, old, now)
	if err := s.addProbes(next, old); err != nil {
		return fmt.Errorf("endpoint %v: %w", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old != nil {
		s.dropLocked(old)
		next.state, next.since, next.reason, next.usable, next.decided, next.forced = old.state, old.since, old.reason, old.usable, old.decided, old.forced
	}
	s.endpoints[key] = next
	s.linkLocked(next)
	if p := s.pools[e.Pool]; p != nil {
		p.size++
	}
	for i := range next.checks {
		c := &next.checks[i]
		if c.ejected() {
			s.countEjected(next, 1)
		}
		s.planLocked(c)
	}
	s.planForcedLocked(next)
	s.evaluateLocked(next, now, old == nil)
	s.evaluateDependentsLocked(key, now)
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

// newEntry returns an entry of key with the checks of e, and what the same checks of old know.
func (s *Set[K]) newEntry(key K, e Endpoint[K], old *entry[K], now time.Time) *entry[K] {
	next := &entry[K]{set: s, key: key, name: fmt.Sprint(key), cfg: e, put: now, checks: make([]check[K], len(e.Checks)), state: e.Initial, since: now, deadline: -1}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range e.Checks {
		c := &next.checks[i]
		*c = check[K]{entry: next, cfg: &next.cfg.Checks[i], deadline: -1}
		c.begin(now)
		if old != nil {
			c.inherit(old.checkNamed(c.cfg.Name))
		}
	}
	for i := range next.checks {
		c := &next.checks[i]
		if p := c.cfg.Passive; p != nil && p.UntilCheck != "" {
			next.checks[slices.IndexFunc(e.Checks, func(o Check) bool { return o.Name == p.UntilCheck })].restores = c
		}
	}
	return next
}

// Remove removes an endpoint and its checks. Endpoints that depend on it no longer do. The error is [ErrBusy].
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
	s.dropLocked(e)
	delete(s.endpoints, key)
	now := time.Now()
	s.emitLocked(&Change[K]{Key: key, From: e.state, Time: now, Removed: true})
	s.evaluateDependentsLocked(key, now)
	return nil
}

// dropLocked takes e out of everything but the map of endpoints.
func (s *Set[K]) dropLocked(e *entry[K]) {
	s.unlinkLocked(e)
	for i := range e.checks {
		c := &e.checks[i]
		c.gone = true
		if c.ejected() {
			s.countEjected(e, -1)
		}
		s.deadlines.remove(&c.deadline)
	}
	s.deadlines.remove(&e.deadline)
	if p := s.pools[e.cfg.Pool]; p != nil {
		p.size--
	}
}

func (s *Set[K]) countEjected(e *entry[K], by int) {
	if p := s.pools[e.cfg.Pool]; p != nil {
		p.ejected += by
	}
}

// Force sets a state, until f.Until or Release.
func (s *Set[K]) Force(key K, f Forced) error {
	if f.Mode < Up || f.Mode > Drained {
		return invalid("Forced.Mode", "is %d, and no mode", f.Mode)
	}
	return s.force(key, &f)
}

// Release ends what Force has set.
func (s *Set[K]) Release(key K) error { return s.force(key, nil) }

func (s *Set[K]) force(key K, f *Forced) error {
	if !s.setForced(key, f) {
		return fmt.Errorf("endpoint %v: %w", key, ErrNotFound)
	}
	return nil
}

func (s *Set[K]) setForced(key K, f *Forced) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[key]
	if e == nil {
		return false
	}
	e.forced = f
	s.planForcedLocked(e)
	s.evaluateLocked(e, time.Now(), false)
	return true
}

// evaluateLocked computes the state of e, and tells readers and dependents if it has changed.
func (s *Set[K]) evaluateLocked(e *entry[K], now time.Time, first bool) {
	if s.endpoints[e.key] != e {
		return // it is being put, or is gone
	}
	if f := e.forced; f != nil && !f.Until.IsZero() && !now.Before(f.Until) {
		e.forced = nil
		s.deadlines.remove(&e.deadline)
	}
	state, deciding := e.combine()
	if state != states.Unknown {
		e.decided = true
	} else if !e.decided {
		state = e.cfg.Initial
	}
	blocked, reason := false, e.explain(state, deciding)
	if state == states.Failure {
		if blocker, ok := s.blockerLocked(e); ok {
			state, blocked, reason = states.Unknown, true, "depends on "+blocker.name+", which fails"
		}
	}
	usable := state == states.Success || state == states.Warning
	if f := e.forced; f != nil {
		switch f.Mode {
		case Up:
			state, blocked = states.Success, false
		case Down:
			state, blocked = states.Failure, false
		}
		usable = f.Mode == Up
		reason = f.text()
	}
	c := Change[K]{Key: e.key, From: e.state, To: state, Time: now, Reason: reason, Deciding: e.names(state, deciding), Usable: usable}
	changed := first || state != e.state || reason != e.reason || usable != e.usable
	wasDown := e.down()
	if state != e.state || first {
		e.since = now
	}
	e.state, e.reason, e.blocked, e.usable = state, reason, blocked, usable
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

// combine returns the state that the rule makes of the checks, and the bits of the checks that decide it.
func (e *entry[K]) combine() (state states.State, deciding uint64) {
	var room [8]Vote
	votes := room[:0]
	for i := range e.checks {
		votes = append(votes, Vote{e.checks[i].vote(), e.checks[i].cfg.weight()})
	}
	state = e.cfg.Rule.Combine(votes)
	for i, v := range votes {
		if v.State == state {
			deciding |= 1 << i
		}
	}
	return state, deciding
}

func (e *entry[K]) names(state states.State, deciding uint64) (names []string) {
	for i := range e.checks {
		if deciding&(1<<i) != 0 && state != states.Success {
			names = append(names, e.checks[i].cfg.Name)
		}
	}
	return names
}

// explain returns the reason of a state of the checks, which names those that decide; "" for a success.
func (e *entry[K]) explain(state states.State, deciding uint64) string {
	if state == states.Success || deciding == 0 {
		return ""
	}
	var parts []string
	for i := range e.checks {
		if c := &e.checks[i]; deciding&(1<<i) != 0 {
			parts = append(parts, strings.TrimSuffix(c.cfg.Name+": "+c.text, ": "))
		}
	}
	if len(e.checks) == 1 {
		return parts[0]
	}
	return fmt.Sprintf("%d of %d checks %s: %s", len(parts), len(e.checks), verbs[state], strings.Join(parts, "; "))
}

var verbs = [...]string{states.Unknown: "are unknown", states.Warning: "warn", states.Failure: "fail"}

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

func (e *entry[K]) checkNamed(name string) *check[K] {
	for i := range e.checks {
		if e.checks[i].cfg.Name == name {
			return &e.checks[i]
		}
	}
	return nil
}

// Status is the state of an endpoint.
type Status struct {
	State    states.State
	Since    time.Time
	Reason   string   // for people; "" for a success
	Deciding []string // names of the checks that decide the state; nil for a success
	Usable   bool     // success or warning, and neither drained nor forced down
	Forced   *Forced  // nil: it is not forced
	Checks   []CheckStatus
}

// CheckStatus is the state of one check.
type CheckStatus struct {
	Name  string
	State states.State
	Since time.Time
	Text  string // of the last result that did not succeed
	// Run is the number of results in a row that equal the last one for the thresholds, a warning being a success. It is 0
	// before the first result. Of a passive check it is the number of failures in a row since the last ejection.
	Run int
	// Outcomes is the number of outcomes of a passive check within its Window, and Failures the number of those that fail.
	// An ejection, and its end, set both to 0.
	Outcomes, Failures int
	// Next is the time at which a pushed check fails without a report, or an ejection ends; zero for none.
	Next time.Time
	Push *PushState // of a pushed check
	// Overflow counts the ejections that the pool did not allow.
	Overflow uint64
}

// Status returns the state of an endpoint; false if there is none.
func (s *Set[K]) Status(key K) (Status, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[key]
	if e == nil {
		return Status{}, false
	}
	_, deciding := e.combine()
	st := Status{State: e.state, Since: e.since, Reason: e.reason, Deciding: e.names(e.state, deciding), Usable: e.usable}
	if e.forced != nil {
		st.Forced = new(*e.forced)
	}
	for i := range e.checks {
		st.Checks = append(st.Checks, e.checks[i].status())
	}
	return st, true
}

// Keys returns the keys of all endpoints, in no order.
func (s *Set[K]) Keys() (keys []K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.endpoints {
		keys = append(keys, key)
	}
	return keys
}

// Usable returns the usable endpoints of a pool, in no order. If too few of them are usable, by [Pool.Panic], it returns all
// that are not drained or forced down, and panics is true. Without a pool of that name it returns the usable endpoints
// without a pool.
func (s *Set[K]) Usable(name string) (keys []K, panics bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []K
	for key, e := range s.endpoints {
		if e.cfg.Pool != name || e.forced != nil && e.forced.Mode != Up {
			continue
		}
		all = append(all, key)
		if e.usable {
			keys = append(keys, key)
		}
	}
	if p := s.pools[name]; p != nil && len(keys) < len(all) && float64(len(keys)) < p.Panic*float64(len(all)) {
		return all, true
	}
	return keys, false
}

// Explain returns what happened in the ticks of a check with a Probe; see [group.Group.Explain].
func (s *Set[K]) Explain(key K, name string) (group.Explanation, bool) {
	return s.group.Explain(s.id(key, name))
}

// Trigger makes the probe of a check tick now.
func (s *Set[K]) Trigger(key K, name string) error { return s.group.Trigger(s.id(key, name)) }

func (s *Set[K]) id(key K, name string) group.ID[K] {
	return group.ID[K]{Key: key, Task: name, Kind: probe.Readiness}
}

// Shutdown ends all probes and readers. It returns when no tick is under way, or when ctx ends.
func (s *Set[K]) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		for r := range s.readers {
			r.close()
		}
		s.signal()
	}
	s.mu.Unlock()
	err := s.group.Shutdown(ctx)
	<-s.ended
	return err
}

func (s *Set[K]) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Set[K]) emitLocked(c *Change[K]) {
	for r := range s.readers {
		r.put(c)
	}
}

// addReader adds a reader, with the state of each endpoint as its first changes; false if the set is shut down.
func (s *Set[K]) addReader(r *reader[K]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.readers[r] = struct{}{}
	for key, e := range s.endpoints {
		_, deciding := e.combine()
		r.put(&Change[K]{Key: key, To: e.state, Time: e.since, Reason: e.reason, Deciding: e.names(e.state, deciding), Usable: e.usable})
	}
	return true
}

func (s *Set[K]) removeReader(r *reader[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, r)
}

// allowsEjection reports whether the pool of e allows one more ejection.
func (s *Set[K]) allowsEjectionLocked(e *entry[K]) bool {
	p := s.pools[e.cfg.Pool]
	return p == nil || p.ejected+1 <= max(1, int(math.Floor(p.MaxEjected*float64(p.size)+1e-9)))
}

// task returns the task of a check that has none. Its Subject is unique.
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
