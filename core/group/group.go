// Package group runs probes for an agent that has nothing to do with Kubernetes.
//
// A [Group] keeps a worker for each probe. Probes belong to a key of the caller's: the name of a
// service, the number of a machine. A probe of a key is named by its task, which is what is
// probed, and by its kind. The caller makes a [worker.Task], publishes its state whenever that
// changes, and adds probes with handlers that are bound in Go:
//
//	g, err := group.New[string](group.Config{})
//	task := &worker.Task{Subject: results.Subject{Pod: "checkout", Container: "web"}}
//	task.SetState(worker.Running("checkout/web/1", time.Now()))
//	err = g.Add("checkout", group.Probe{Task: task, Kind: probe.Readiness, Handler: handler})
//	for key, update := range g.Subscribe(ctx) { … }
//
// The thresholds, gates, retries and results are those of the kubelet: see package worker, and
// package manager, which is the kubelet's probe manager over a Group. This file is the group and
// its probes; check.go is what a probe must have; end.go stops probes; status.go and history.go
// are what users see.
package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Errors of the methods of a [Group].
var (
	ErrClosed   = errors.New("closed")
	ErrExists   = errors.New("probe exists already")
	ErrNotFound = errors.New("no such probe")
)

// Config configures a [Group]. The zero value works.
type Config struct {
	// The results caches, for a caller that shares them. New makes those that are nil. Only the
	// workers change them: a result that the caller removes is not stored again before it changes.
	Liveness, Readiness, Startup *results.Cache

	Observers []worker.Observer // observe every tick of every probe
	// Event is called for every tick that failed, ended in an error or a warning, and when a
	// quarantine begins: by the goroutine of the tick, with no lock held, and concurrently for
	// different probes. The probe waits for it, and no other does. Nil drops events.
	Event  func(Event)
	Logger *slog.Logger // nil: slog's default

	// RestartGrace is how long before the start of the group a task must have started to
	// count as probed by an earlier agent. 0 means the kubelet's 10 s.
	RestartGrace time.Duration
	// History bounds the bytes of past ticks of all probes that are kept for [Status]. 0
	// keeps only the last tick of each probe, with 256 bytes of its output. With a history, every
	// attempt is traced for [Group.Explain].
	History int64
	// Compat brings known bugs of the kubelet back; 0 fixes all of them.
	Compat probe.Compat
	// ContainerScoped begins the schedule of a probe with each run of its task: the first attempt comes InitialDelay after
	// the StartedAt of the state, at once with 0, and further ones at multiples of the period from there. Liveness and
	// readiness begin when the state is Started, if that is later. Attempts for the run before are dropped. The state must
	// be published, by [worker.Task.SetState] or a [worker.Publisher]: else a run is found at the next multiple of the
	// period. The first attempts of tasks that ran before the group was made are spread, as without ContainerScoped.
	ContainerScoped bool
}

// Event is something that an operator may want to know: a failed probe, for example.
type Event struct {
	Info    worker.Info
	Task    *worker.Task
	Reason  worker.EventReason
	Message string
}

// Probe is one probe of a key. Only Task and Handler are required.
type Probe struct {
	// Task is what is probed. Probes of one task share it. A task has at most one probe of
	// each kind. Its name, the Container of its Subject, is unique among the tasks of a key. No
	// other task of the group may have the ContainerID in its state: see [worker.InUse].
	Task *worker.Task
	Kind probe.Kind // the zero value is Liveness
	// Handler carries the probe out. Once the probe is added, the group releases it when it
	// is no longer used, if it is a [probe.Releaser].
	Handler probe.Handler
	Name    string // of the handler, for observers, logs and metrics
	// Spec has the schedule and the thresholds. Fields that are 0 have the kubelet's defaults:
	// a period of 10 s, a timeout of 1 s, one success and three failures. A period is at least
	// 1 ms, and so is a timeout. A negative timeout means none: then a handler that does not return keeps
	// the probe from ticking, and its decided result stays.
	Spec probe.Spec
	// Target is for handlers that take their target from the request. Without a Host and
	// Unix its host is the PodIP of the state of the task.
	Target probe.Target
	Paused bool // until [Group.Resume]
	// Tag is the caller's own; see [Group.Current].
	Tag any
}

func (p *Probe) setup() engine.Setup {
	return engine.Setup{Spec: p.Spec, Handler: p.Handler, Name: p.Name, Target: p.Target}
}

// ID identifies a probe of a group.
type ID[K comparable] struct {
	Key  K
	Task string // Container in the subject of the task
	Kind probe.Kind
}

// Group owns workers. It is safe for concurrent use. But for [Group.Shutdown] its methods return
// without waiting for an attempt, and call observers and handlers with no lock held. Each call takes
// a time in proportion to the probes of its key, which are meant to be few: a hundred, say.
type Group[K comparable] struct {
	inner[K]
	shared engine.Shared
	pods   bool // texts are about containers in pods, not about tasks
	memory history
	owned  []*results.Cache // made by New
	seed   maphash.Seed

	mu     sync.RWMutex
	keys   map[K]*keyed[K]
	count  int // of entries
	closed bool
	done   chan struct{}          // closed by Shutdown when there are no more results
	left   map[*entry[K]]struct{} // taken from entries; a tick may be under way
	ended  chan struct{}          // closed when left becomes empty; nil unless Shutdown waits
}

type inner[K comparable] = seam.Hidden[hidden[K]]

// hidden are the methods of a group that only package manager calls.
type hidden[K comparable] struct{ group *Group[K] }

// Current returns a probe as it is now, for Replace.
func (h *hidden[K]) Current(id ID[K]) (now Probe, at seam.Version, ok bool) {
	return h.group.current(id)
}

// Replace is [Group.replace].
func (h *hidden[K]) Replace(since seam.Version, p Probe, keep seam.Keep) bool {
	return h.group.replace(since, p, keep)
}

// Reshape replaces what a probe knows of its task from the next tick on, unless the probe has ended.
// t is the same task, with the same Subject and another description.
func (h *hidden[K]) Reshape(at seam.Version, t *worker.Task) { at.Entry.(*entry[K]).Worker.Reshape(t) }

// Updates is [Group.Subscribe] without keys, and with the results that are not of a probe.
func (h *hidden[K]) Updates(ctx context.Context) iter.Seq[results.Update] {
	g := h.group
	return seam.Reveal(g.shared.Results[0]).Updates(ctx, g.done, g.shared.Results[:]...)
}

// SpeakOfPods makes the texts of a group about containers in pods. It is called before the first probe is added.
func (h *hidden[K]) SpeakOfPods() { h.group.pods = true }

// Nudge makes a probe tick now that has made no attempt yet; see engine.Worker.
func (h *hidden[K]) Nudge(id ID[K]) error { return h.group.with(id, (*engine.Worker).Nudge) }

// keyed are the probes of one key. They are few: a list is smaller than a map, and as fast.
type keyed[K comparable] struct {
	self    any // for the owners of containers
	group   *Group[K]
	key     K
	entries []*entry[K] // guarded by the mu of the group
}

// entry is a worker and what the group knows of it. It is the first observer of the worker, and its
// owner.
type entry[K comparable] struct {
	engine.Worker
	record record
	of     *keyed[K] // set before the worker is started

	// Guarded by the mu of the group, and read-only once the entry was taken.
	tag     any
	version uint32 // number of changes so far
	paused  bool   // as configured
	resting bool   // no tick was under way when it was taken
	forgets bool   // the group keeps no history; read-only from the start
}

var (
	_ engine.Owner         = (*entry[int])(nil)
	_ worker.ProbeObserver = (*entry[int])(nil)
)

func (e *entry[K]) is(task string, kind probe.Kind) bool {
	return e.Kind() == kind && e.Task().Subject.Container == task
}

// New returns a group without probes.
func New[K comparable](cfg Config) (*Group[K], error) {
	if i := slices.Index(cfg.Observers, nil); i >= 0 {
		return nil, invalid(fmt.Sprintf("Config.Observers[%d]", i), "is nil")
	}
	g := &Group[K]{seed: maphash.MakeSeed()}
	g.inner = seam.Hide(hidden[K]{g})
	g.keys, g.left, g.done = make(map[K]*keyed[K]), make(map[*entry[K]]struct{}), make(chan struct{})
	g.memory.budget = cfg.History
	for kind, cache := range [...]*results.Cache{probe.Liveness: cfg.Liveness, probe.Readiness: cfg.Readiness, probe.Startup: cfg.Startup} {
		kind := probe.Kind(kind)
		if cache == nil {
			cache = results.New(kind)
			g.owned = append(g.owned, cache)
		}
		if got := cache.Kind(); got != kind {
			return nil, invalid("Config."+kind.Title(), "is a cache for %s probes", got)
		}
		g.shared.Results[kind] = cache
	}
	g.shared.Observers, g.shared.Compat, g.shared.Logger, g.shared.Trace = cfg.Observers, cfg.Compat, cfg.Logger, cfg.History > 0
	g.shared.ContainerScoped = cfg.ContainerScoped
	g.shared.AgentStart, g.shared.RestartGrace = time.Now(), cmp.Or(cfg.RestartGrace, 10*time.Second)
	if cfg.Event != nil {
		g.shared.Event = func(w *engine.Worker, reason worker.EventReason, message string) {
			cfg.Event(Event{w.Info(), w.Task(), reason, message})
		}
	}
	return g, nil
}

// StartedAt returns when the group was made.
func (g *Group[K]) StartedAt() time.Time { return g.shared.AgentStart }

// Add starts a probe of key. Its error matches [ErrExists] or [ErrClosed], is a [*worker.InUseError] if
// another task has the ContainerID in the state of p.Task, or a [*FieldError] of p. p.Handler is
// then still the caller's.
func (g *Group[K]) Add(key K, p Probe) error {
	p, err := checked(key, p)
	if err != nil {
		return err
	}
	id := ID[K]{key, p.Task.Subject.Container, p.Kind}
	e := &entry[K]{tag: p.Tag, paused: p.Paused, forgets: g.memory.budget == 0}
	delay, phase := g.spread(id, p.Spec.Period)
	started := false
	defer func() {
		if !started { // also when an observer ends the goroutine
			e.Stop()
		}
	}()
	e.Init(&g.shared, engine.Config{
		Setup: p.setup(), Task: p.Task, Kind: p.Kind, Delay: delay, Phase: phase, Paused: p.Paused, Observer: e, Owner: e,
	})
	if err := g.insert(id, e); err != nil {
		return fmt.Errorf("%v: %w", id, err)
	}
	started = true
	return nil
}

// insert adds e and starts its worker.
func (g *Group[K]) insert(id ID[K], e *entry[K]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return ErrClosed
	case g.entryLocked(id) != nil:
		return ErrExists
	}
	for _, o := range g.ofLocked(id.Key) {
		if o.Task().Subject.Container == id.Task {
			seam.Reveal(e.Task()).Join(seam.Reveal(o.Task()))
		}
	}
	if err := e.Claim(); err != nil {
		return err
	}
	of := g.keys[id.Key]
	if of == nil {
		of = &keyed[K]{group: g, key: id.Key}
		of.self = of
	}
	if !seam.Reveal(e.Task()).Settle(&of.self, of.isHome) {
		return invalid("Probe.Task", "is one of another key or group: two results would have one name")
	}
	g.keys[id.Key] = of
	of.addLocked(e)
	g.count++
	g.memory.probes.Add(1)
	e.Worker.Start()
	return nil
}

// isHome reports whether home stands for the same key, perhaps from before its last probe has ended.
func (k *keyed[K]) isHome(home any) bool {
	o, ok := home.(*keyed[K])
	return ok && o.group == k.group && o.key == k.key
}

// addLocked adds e. Room is made for a task with probes of all kinds, and no more while there are
// few.
func (k *keyed[K]) addLocked(e *entry[K]) {
	if n := len(k.entries); n == cap(k.entries) && n < 6*len(probe.Kinds) {
		k.entries = append(make([]*entry[K], 0, n+len(probe.Kinds)), k.entries...)
	}
	k.entries, e.of = append(k.entries, e), k
}

// ofLocked returns the entries of key.
func (g *Group[K]) ofLocked(key K) []*entry[K] {
	if of := g.keys[key]; of != nil {
		return of.entries
	}
	return nil
}

// spread returns the delay of the first tick of a new probe, and the time from there to the
// second tick; 0 means a period. While the group is younger than the period, the first tick
// is delayed by a random part of it, at most 10 s, so that the probes of an agent that has just started do
// not run all at once. Later the first tick is immediate. The second one is spread over the period.
func (g *Group[K]) spread(id ID[K], period time.Duration) (delay, phase time.Duration) {
	late := g.shared.Compat.Has(probe.CompatLateStart)
	if period > time.Since(g.shared.AgentStart) {
		if late || period <= longestSpread {
			return rand.N(period), 0
		}
		return rand.N(longestSpread), g.phase(id, period)
	}
	if g.shared.Compat.Has(probe.CompatHerd) {
		return 0, 0
	}
	return 0, g.phase(id, period)
}

// longestSpread is how long the first tick of a probe is delayed at most.
const longestSpread = 10 * time.Second

// phase returns a part of the period that depends on the probe.
func (g *Group[K]) phase(id ID[K], period time.Duration) time.Duration {
	return time.Duration(maphash.Comparable(g.seed, id)%uint64(period)) + 1
}

// Update changes a probe of key, or adds it. It does nothing if the probe is the same as before. Another
// Handler, Target or Timeout cancels the attempt under way, which is not counted and made again at once: but not one that
// is such an attempt already, and has a timeout, so that a probe that is changed again and again decides. Another Handler
// or Target begins a new run of equal results, unless the present one has had no result yet. They, and other
// thresholds, WarningIsFailure and ErrorPolicy, end the hold after a failure. A new period takes effect at once. A
// pause stays, unless p.Paused is another one than before. The task of a probe cannot be changed.
//
// A handler that was bound again is another one, and so is one that cannot be compared, such as a
// [probe.HandlerFunc]. The group releases the one before. When Update returns an error, p.Handler
// is still the caller's.
func (g *Group[K]) Update(key K, p Probe) error {
	p, err := checked(key, p)
	if err != nil {
		return err
	}
	for {
		now, at, ok := g.current(ID[K]{key, p.Task.Subject.Container, p.Kind})
		switch {
		case !ok:
			if err := g.Add(key, p); !errors.Is(err, ErrExists) {
				return err
			}
		case now.Task != p.Task:
			return fmt.Errorf("%v: %w", ID[K]{key, p.Task.Subject.Container, p.Kind}, invalid("Probe.Task", "is not the one of the probe that runs"))
		case now.equal(&p):
			return nil
		case g.replace(at, p, seam.Keep{Run: now.sameHandler(&p) && now.Target == p.Target, Attempt: now.sameHandler(&p)}):
			if !now.sameHandler(&p) {
				at.Entry.(*entry[K]).Release(now.Handler)
			}
			return nil
		}
	}
}

func (p *Probe) equal(o *Probe) bool {
	return p.sameHandler(o) && p.Name == o.Name && p.Spec == o.Spec && p.Target == o.Target && p.Paused == o.Paused && same(p.Tag, o.Tag)
}

func (p *Probe) sameHandler(o *Probe) bool { return same(p.Handler, o.Handler) }

// same reports whether a and b are equal. Values that cannot be compared are not.
func same(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// Current returns a probe as it is now; false if there is none.
func (g *Group[K]) Current(id ID[K]) (now Probe, ok bool) {
	now, _, ok = g.current(id)
	return now, ok
}

func (g *Group[K]) current(id ID[K]) (now Probe, at seam.Version, ok bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	e := g.entryLocked(id)
	if e == nil {
		return now, at, false
	}
	return e.currentLocked(), seam.Version{Entry: e, Number: e.version}, true
}

func (e *entry[K]) currentLocked() Probe {
	s := e.Setup()
	return Probe{
		Task: e.Task(), Kind: e.Kind(), Handler: s.Handler, Name: s.Name, Spec: s.Spec, Target: s.Target, Paused: e.paused, Tag: e.tag,
	}
}

// replace changes a probe as [Group.Update] does, but does not check p, and compares no handlers. The handler
// before is the caller's again, who releases it. It reports false, and does nothing, if the probe has
// ended or was changed since: so a caller can prepare the change without a lock.
func (g *Group[K]) replace(since seam.Version, p Probe, keep seam.Keep) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := since.Entry.(*entry[K])
	if !slices.Contains(e.of.entries, e) || e.version != since.Number {
		return false
	}
	change := engine.Change{
		Setup: p.setup(), KeepRun: keep.Run, KeepAttempt: keep.Attempt, Paused: p.Paused, KeepPaused: p.Paused == e.paused,
	}
	if !e.Worker.Update(change) { // it has just ended by itself
		return false
	}
	e.version++
	e.tag, e.paused = p.Tag, p.Paused
	return true
}

// Stalled returns how long a probe has been due while no other one was run either: a fraction of a
// second at most, unless the process does not run. Many probes that are late because there is too much
// to do are no stall. It does not return while the schedule is locked for ever.
func (g *Group[K]) Stalled() time.Duration { return g.shared.Stalled() }

// Trigger makes a probe tick now. Its error matches [ErrNotFound].
func (g *Group[K]) Trigger(id ID[K]) error { return g.with(id, (*engine.Worker).Trigger) }

// Pause stops the attempts of a probe until [Group.Resume]. Its decided result stays.
func (g *Group[K]) Pause(id ID[K]) error { return g.with(id, (*engine.Worker).Pause) }

// Resume ends a pause: the probe ticks now.
func (g *Group[K]) Resume(id ID[K]) error { return g.with(id, (*engine.Worker).Resume) }

func (g *Group[K]) with(id ID[K], do func(*engine.Worker)) error {
	e := g.entry(id)
	if e == nil {
		return fmt.Errorf("%v: %w", id, ErrNotFound)
	}
	do(&e.Worker)
	return nil
}

// Has reports whether there is such a probe.
func (g *Group[K]) Has(id ID[K]) bool { return g.entry(id) != nil }

func (g *Group[K]) entry(id ID[K]) *entry[K] {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.entryLocked(id)
}

func (g *Group[K]) entryLocked(id ID[K]) *entry[K] {
	for _, e := range g.ofLocked(id.Key) {
		if e.is(id.Task, id.Kind) {
			return e
		}
	}
	return nil
}

// Results returns the cache of the decided results for kind, by the ContainerID in the states of
// the tasks. kind is one of [probe.Kinds].
func (g *Group[K]) Results(kind probe.Kind) *results.Cache { return g.shared.Results[kind] }

// Subscribe returns all decided results with the keys of their probes, and then their changes until ctx ends,
// or the group is shut down and the last of them is read. A slow reader blocks no worker, and gets the newest
// state of every task; see [results.Subscribe]. Results in a cache of the caller that are not of a probe of the
// group are left out.
func (g *Group[K]) Subscribe(ctx context.Context) iter.Seq2[K, results.Update] {
	all := seam.Reveal(g.shared.Results[0]).Subscribe(ctx, g.done, g.shared.Results[:]...)
	return func(yield func(K, results.Update) bool) {
		for of, u := range all {
			if of == nil {
				continue
			}
			if home, ok := (*of).(*keyed[K]); ok && home.group == g && !yield(home.key, u) {
				return
			}
		}
	}
}
