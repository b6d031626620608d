package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// Errors of the methods of a [Set].
var (
	ErrNotFound = errors.New("no such endpoint or check")
	// ErrBusy is returned by Put and Remove while another one of them changes the same endpoint, as when a
	// callback of the first calls the second.
	ErrBusy   = errors.New("the endpoint is being changed")
	ErrClosed = group.ErrClosed
)

// Config configures a [Set]. The zero value works.
type Config struct {
	// Group configures the group that runs probes. Its Observers observe the ticks of all checks.
	Group group.Config
	Pools map[string]Pool
}

// Set owns endpoints. It is safe for concurrent use. Its methods, except [Set.Shutdown], do not wait for
// attempts. They call handlers, observers and publishers with no lock held.
type Set[K comparable] struct {
	group *group.Group[K]
	pools map[string]*pool
	seed  maphash.Seed // of fingerprints

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

// entry is an endpoint of a set. Put replaces it. Its fields are guarded by the mu of the set, or read-only.
type entry[K comparable] struct {
	key       K
	name      string // the key as text
	checks    []*check[K]
	rule      Rule
	dependsOn []K
	pool      *pool // nil for none
	forced    *Forced
	hash      uint64 // fingerprint of the reason of state
	since     int64  // start of state, in nanoseconds of Unix time

	deadline   int32 // index of the end of forced in deadlines, with -1 for none
	state      states.State
	initial    states.State
	decided    bool // the checks have decided a state since the first Put
	blocked    bool // its failure counts as unknown, because of an endpoint that it depends on
	usable     bool
	untilCheck bool // an ejection may wait for one of the checks
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
		seed: maphash.MakeSeed(), pools: make(map[string]*pool), endpoints: make(map[K]*entry[K]), dependents: make(map[K]map[*entry[K]]struct{}),
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

func (e *entry[K]) checkNamed(name string) *check[K] {
	for _, c := range e.checks {
		if c.name == name {
			return c
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
	// before the first result, and at most 65535 for a probe. Of a passive check it is the number of failures in a row since
	// the last ejection.
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
	st := Status{State: e.state, Since: time.Unix(0, e.since), Usable: e.usable}
	st.Reason, st.Deciding = s.explainLocked(e)
	if e.forced != nil {
		st.Forced = new(*e.forced)
	}
	for _, c := range e.checks {
		st.Checks = append(st.Checks, c.status())
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

// IsUsable is [Status.Usable] of an endpoint; false if there is none. It is cheap enough to be called for each
// request.
func (s *Set[K]) IsUsable(key K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.endpoints[key]
	return e != nil && e.usable
}

// Usable returns the usable endpoints of a pool, in no order. If too few of them are usable, by [Pool.Panic],
// it returns all that are not drained or forced down, and panics is true. The name "" means the endpoints
// without a pool.
func (s *Set[K]) Usable(name string) (keys []K, panics bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool := s.pools[name]
	if pool == nil && name != "" {
		return nil, false
	}
	var all []K
	for key, e := range s.endpoints {
		if e.pool != pool || e.forced != nil && e.forced.Mode != Up {
			continue
		}
		all = append(all, key)
		if e.usable {
			keys = append(keys, key)
		}
	}
	if pool != nil && len(keys) < len(all) && float64(len(keys)) < pool.Panic*float64(len(all)) {
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
			r.closed = true
			r.signal()
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

func (s *Set[K]) emitLocked(key K, p pending) {
	for r := range s.readers {
		r.put(key, p)
	}
}

// addReader adds a reader, with the state of each endpoint as its first changes; false if the set is shut
// down.
func (s *Set[K]) addReader(r *reader[K]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.readers[r] = struct{}{}
	for key, e := range s.endpoints {
		r.put(key, pending{at: e.since})
	}
	return true
}

func (s *Set[K]) removeReader(r *reader[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, r)
}
