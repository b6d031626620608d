// Package group runs probes for programs that do not use Kubernetes.
//
// A [Group] keeps a worker for each probe. Probes belong to a key of the caller, such as the name of a
// service or the number of a machine. Within a key, a probe is identified by its task, which is the probed
// object, and by its kind. The caller makes a [worker.Task], publishes its state at each change, and adds
// probes with handlers bound in Go:
//
//	g, err := group.New[string](group.Config{})
//	task := &worker.Task{Subject: results.Subject{Pod: "checkout", Container: "web"}}
//	task.SetState(worker.Running("checkout/web/1", time.Now()))
//	err = g.Add("checkout", group.Probe{Task: task, Kind: probe.Readiness, Handler: handler})
//	for key, update := range g.Subscribe(ctx) { … }
//
// The thresholds, gates, retries and results are the kubelet's: see package worker, and package manager,
// which is the kubelet's probe manager on top of a Group.
//
// group.go has the group and its probes. check.go validates probes, and end.go stops them. status.go and
// history.go have the state that users see.
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
	// Results caches that the caller shares. New makes those that are nil. Only the workers change them: if
	// the caller removes a result, it is not stored again before it changes.
	Liveness, Readiness, Startup *results.Cache

	Observers []worker.Observer // observe every tick of every probe
	// Event is called for every tick with a failure, an error or a warning, and at the beginning of a
	// quarantine. The caller is the goroutine of the tick, with no lock held, and concurrently for
	// different probes. The probe waits for it; other probes do not. Nil drops events.
	Event  func(Event)
	Logger *slog.Logger // nil: slog's default

	// RestartGrace is how long before the start of the group a task must have started to count as probed by
	// an earlier agent. 0 means the kubelet's 10 s.
	RestartGrace time.Duration
	// History is the memory budget in bytes for the past ticks of all probes; see [Status]. 0 keeps only
	// the last tick of each probe, with 256 bytes of its output. With a history, every attempt is traced
	// for [Group.Explain].
	History int64
	// Compat restores known bugs of the kubelet; 0 fixes all of them.
	Compat probe.Compat
	// ContainerScoped begins the schedule of a probe with each run of its task. The first attempt is
	// InitialDelay after the state's StartedAt, or at once if it is 0. Further attempts follow at multiples
	// of the period from there. Liveness and readiness begin when the state is Started, if that is later.
	// Attempts for the previous run are dropped.
	//
	// The state must be published, by [worker.Task.SetState] or a [worker.Publisher]; otherwise a run is
	// only noticed at the next multiple of the period. The first attempts of tasks that ran before the
	// group was made are spread, as without ContainerScoped.
	ContainerScoped bool
}

// Event is an event for an operator, such as a failed probe.
type Event struct {
	Info    worker.Info
	Task    *worker.Task
	Reason  worker.EventReason
	Message string
}

// Probe is one probe of a key. Only Task and Handler are required.
type Probe struct {
	// Task is the probed object. The probes of one task share it. A task has at most one probe of each
	// kind. Its name, the Container of its Subject, must be unique among the tasks of a key. No other task
	// of the group may have the ContainerID of its state: see [worker.InUse].
	Task *worker.Task
	Kind probe.Kind // the zero value is Liveness
	// Handler carries out the probe. If it is a [probe.Releaser], the group releases it when an added probe
	// stops using it.
	Handler probe.Handler
	Name    string // of the handler, for observers, logs and metrics
	// Spec has the schedule and the thresholds. Fields that are 0 have the kubelet's defaults: a period of
	// 10 s, a timeout of 1 s, one success and three failures. The period and the timeout must be at least 1
	// ms. A negative timeout means no timeout: then a handler that does not return blocks the probe, and
	// its decided result stays.
	Spec probe.Spec
	// Target is for handlers that take their target from the request. If Host and Unix are empty, the host
	// is the PodIP of the task's state.
	Target probe.Target
	Paused bool // until [Group.Resume]
	// Tag is a value for the caller; see [Group.Current].
	Tag any
}

func (p *Probe) setup() engine.Setup {
	return engine.Setup{Spec: p.Spec, Handler: p.Handler, Name: p.Name, Target: p.Target}
}

// ID identifies a probe of a group.
type ID[K comparable] struct {
	Key  K
	Task string // Container in the task's Subject
	Kind probe.Kind
}

// Group owns workers. It is safe for concurrent use. Except for [Group.Shutdown] its methods do not wait
// for attempts. They call observers and handlers with no lock held. The time of a call is proportional to
// the number of probes of its key, which should be small: about a hundred.
type Group[K comparable] struct {
	inner[K]
	shared engine.Shared
	pods   bool // messages are about containers in pods, not about tasks
	memory history
	owned  []*results.Cache // made by New
	seed   maphash.Seed

	mu       sync.RWMutex
	keys     map[K]*keyEntries[K]
	count    int // of entries
	closed   bool
	done     chan struct{}          // closed by Shutdown when there are no more results
	stopping map[*entry[K]]struct{} // taken from entries; a tick may be under way
	ended    chan struct{}          // closed when stopping becomes empty; nil unless Shutdown waits
}

type inner[K comparable] = seam.Hidden[hidden[K]]

// hidden has the methods of a group that only packages of core call.
type hidden[K comparable] struct{ group *Group[K] }

// Current returns a probe and its version, for Replace.
func (h *hidden[K]) Current(id ID[K]) (now Probe, at seam.Version, ok bool) {
	return h.group.current(id)
}

// Replace is [Group.replace].
func (h *hidden[K]) Replace(since seam.Version, p Probe, keep seam.Keep) bool {
	return h.group.replace(since, p, keep)
}

// Reshape replaces the task of a probe from the next tick on, unless the probe has ended. t must be the
// same task, with the same Subject and another description.
func (h *hidden[K]) Reshape(at seam.Version, t *worker.Task) { at.Entry.(*entry[K]).Worker.Reshape(t) }

// Updates is [Group.Subscribe] without keys. It includes results in the caches that belong to no probe.
func (h *hidden[K]) Updates(ctx context.Context) iter.Seq[results.Update] {
	g := h.group
	return seam.Reveal(g.shared.Results[0]).Updates(ctx, g.done, g.shared.Results[:]...)
}

// UsePodTerms makes the messages of a group mention containers in pods instead of tasks. It must be called
// before the first probe is added.
func (h *hidden[K]) UsePodTerms() { h.group.pods = true }

// Nudge makes a probe tick now if it has made no attempt yet; see engine.Worker.Nudge.
func (h *hidden[K]) Nudge(id ID[K]) error { return h.group.with(id, (*engine.Worker).Nudge) }

// Checked returns p with the defaults of its spec, or the error of Add and Update about a field of it.
func (h *hidden[K]) Checked(key K, p Probe) (Probe, error) { return checked(key, p) }

// Equal reports whether Update with b would do nothing if a is the present probe.
func (h *hidden[K]) Equal(a, b *Probe) bool { return a.equal(b) }

// keyEntries has the probes of one key. It uses a list, because for a few probes that is smaller than a
// map, and as fast.
type keyEntries[K comparable] struct {
	self    any // the parent of containers' owners
	group   *Group[K]
	key     K
	entries []*entry[K] // guarded by the mu of the group
}

// entry is a worker with the group's data about it. It is the owner and the first observer of the worker.
type entry[K comparable] struct {
	engine.Worker
	record record
	home   *keyEntries[K] // set before the worker is started

	// Guarded by the mu of the group, and read-only after the entry is taken.
	tag       any
	version   uint32 // number of changes so far
	paused    bool   // as configured
	resting   bool   // no tick was under way when it was taken
	noHistory bool   // the group keeps no history; read-only
}

var (
	_ engine.Owner         = (*entry[int])(nil)
	_ worker.ProbeObserver = (*entry[int])(nil)
)

func (e *entry[K]) matches(task string, kind probe.Kind) bool {
	return e.Kind() == kind && e.Task().Subject.Container == task
}

// New returns a group without probes.
func New[K comparable](cfg Config) (*Group[K], error) {
	if i := slices.Index(cfg.Observers, nil); i >= 0 {
		return nil, invalid(fmt.Sprintf("Config.Observers[%d]", i), "is nil")
	}
	g := &Group[K]{seed: maphash.MakeSeed()}
	g.inner = seam.Hide(hidden[K]{g})
	g.keys, g.stopping, g.done = make(map[K]*keyEntries[K]), make(map[*entry[K]]struct{}), make(chan struct{})
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

// Add starts a probe of key. The error matches [ErrExists] or [ErrClosed], or is a [*worker.InUseError] if
// another task has claimed the ContainerID, or a [*FieldError] about p. If Add returns an error, the caller
// keeps p.Handler.
func (g *Group[K]) Add(key K, p Probe) error {
	p, err := checked(key, p)
	if err != nil {
		return err
	}
	id := ID[K]{key, p.Task.Subject.Container, p.Kind}
	e := &entry[K]{tag: p.Tag, paused: p.Paused, noHistory: g.memory.budget == 0}
	delay, phase := g.spread(id, p.Spec.Period)
	started := false
	defer func() {
		if !started { // also if an observer ends the goroutine
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
	for _, o := range g.entriesLocked(id.Key) {
		if o.Task().Subject.Container == id.Task {
			seam.Reveal(e.Task()).Join(seam.Reveal(o.Task()))
		}
	}
	if err := e.Claim(); err != nil {
		return err
	}
	home := g.keys[id.Key]
	if home == nil {
		home = &keyEntries[K]{group: g, key: id.Key}
		home.self = home
	}
	if !seam.Reveal(e.Task()).Settle(&home.self, home.sameKey) {
		return invalid("Probe.Task", "belongs to another key or group: its results would have two owners")
	}
	g.keys[id.Key] = home
	home.addLocked(e)
	g.count++
	g.memory.probes.Add(1)
	e.Worker.Start()
	return nil
}

// sameKey reports whether home belongs to the same key of the same group. It may date from before the key's
// last probe has ended.
func (k *keyEntries[K]) sameKey(home any) bool {
	o, ok := home.(*keyEntries[K])
	return ok && o.group == k.group && o.key == k.key
}

// addLocked adds e. While there are few entries, it allocates room for one task with probes of all kinds.
func (k *keyEntries[K]) addLocked(e *entry[K]) {
	if n := len(k.entries); n == cap(k.entries) && n < 6*len(probe.Kinds) {
		k.entries = append(make([]*entry[K], 0, n+len(probe.Kinds)), k.entries...)
	}
	k.entries, e.home = append(k.entries, e), k
}

// entriesLocked returns the entries of key.
func (g *Group[K]) entriesLocked(key K) []*entry[K] {
	if home := g.keys[key]; home != nil {
		return home.entries
	}
	return nil
}

// spread returns the delay of the first tick of a new probe, and the time from the first to the second
// tick; 0 means a period. While the group is younger than the period, the first tick is delayed by a random
// part of the period, at most 10 s. So the probes of an agent that has just started do not all run at once.
// Later the first tick is immediate, and the second one is spread over the period.
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

// longestSpread is the maximum delay of the first tick of a probe.
const longestSpread = 10 * time.Second

// phase returns a part of the period that depends on the probe.
func (g *Group[K]) phase(id ID[K], period time.Duration) time.Duration {
	return time.Duration(maphash.Comparable(g.seed, id)%uint64(period)) + 1
}

// Update changes a probe of key, or adds it. It does nothing if the probe is unchanged.
//
// A new Handler, Target or Timeout cancels the attempt under way, which is not counted, and starts another
// one at once. An attempt started for this reason is not cancelled again if it has a timeout, so a probe
// that is changed repeatedly still decides.
//
// A new Handler or Target begins a new run of equal results, unless the present handler has had no result
// yet. A new Handler, Target, Timeout, threshold, WarningIsFailure or ErrorPolicy ends the hold after a
// failure. A new period takes effect at once. A pause stays unless p.Paused has changed. The task of a
// probe cannot be changed.
//
// A handler that was bound again is a new Handler, and so is one that is not comparable, such as a
// [probe.HandlerFunc]. The group releases the previous handler. If Update returns an error, the caller
// keeps p.Handler.
// See RATIONALE.md, "Why does Group.Update compare handlers by identity?"
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
			return fmt.Errorf("%v: %w", ID[K]{key, p.Task.Subject.Container, p.Kind}, invalid("Probe.Task", "is not the task of the running probe"))
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

// same reports whether a and b are equal. Values that are not comparable are not equal.
func same(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// Current returns the current configuration of a probe; false if there is none.
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

// replace changes a probe as [Group.Update] does, but neither checks p nor compares handlers. The caller
// must release the previous handler. It returns false, and does nothing, if the probe has ended or was
// changed since the given version. So a caller can prepare the change without a lock.
func (g *Group[K]) replace(since seam.Version, p Probe, keep seam.Keep) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := since.Entry.(*entry[K])
	if !slices.Contains(e.home.entries, e) || e.version != since.Number {
		return false
	}
	change := engine.Change{
		Setup: p.setup(), KeepRun: keep.Run, KeepAttempt: keep.Attempt, Paused: p.Paused, KeepPaused: p.Paused == e.paused,
	}
	if !e.Worker.Update(change) { // the worker has just ended by itself
		return false
	}
	e.version++
	e.tag, e.paused = p.Tag, p.Paused
	return true
}

// Stalled returns how long a probe has been due while the schedule made no progress. It is a fraction of a
// second at most while the process runs. Probes that are late because of too much work are no stall.
// Stalled blocks if the schedule is locked forever, as in a deadlock.
func (g *Group[K]) Stalled() time.Duration { return g.shared.Stalled() }

// Trigger makes a probe tick now. Its error matches [ErrNotFound].
func (g *Group[K]) Trigger(id ID[K]) error { return g.with(id, (*engine.Worker).Trigger) }

// Pause stops the attempts of a probe until [Group.Resume]. Its decided result stays.
func (g *Group[K]) Pause(id ID[K]) error { return g.with(id, (*engine.Worker).Pause) }

// Force is [Group.Pause] with the result of gate: [worker.ForcedUp], [worker.ForcedDown] or [worker.Drained],
// for readiness probes. Resume and Pause end it: then the decided result is again the one of before. Its error
// matches [ErrNotFound], or is a [*FieldError].
func (g *Group[K]) Force(id ID[K], gate worker.Gate) error {
	if _, ok := gate.Forced(); !ok {
		return invalid("gate", "%q forces no result", gate)
	}
	if id.Kind != probe.Readiness {
		return invalid("ID.Kind", "is %s: only the result of a readiness probe can be forced", id.Kind)
	}
	return g.with(id, func(w *engine.Worker) { w.Force(gate) })
}

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

// Has reports whether the probe exists.
func (g *Group[K]) Has(id ID[K]) bool { return g.entry(id) != nil }

func (g *Group[K]) entry(id ID[K]) *entry[K] {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.entryLocked(id)
}

func (g *Group[K]) entryLocked(id ID[K]) *entry[K] {
	for _, e := range g.entriesLocked(id.Key) {
		if e.matches(id.Task, id.Kind) {
			return e
		}
	}
	return nil
}

// Results returns the cache of the decided results of kind, which are keyed by the ContainerID of the
// tasks. kind must be one of [probe.Kinds].
func (g *Group[K]) Results(kind probe.Kind) *results.Cache { return g.shared.Results[kind] }

// Subscribe returns all decided results with the keys of their probes, and then their changes until ctx
// ends, or until the group is shut down and the last change is read. A slow reader blocks no worker, and
// gets the newest state of every task; see [results.Subscribe]. Results in a shared cache that belong to no
// probe of the group are left out.
func (g *Group[K]) Subscribe(ctx context.Context) iter.Seq2[K, results.Update] {
	all := seam.Reveal(g.shared.Results[0]).Subscribe(ctx, g.done, g.shared.Results[:]...)
	return func(yield func(K, results.Update) bool) {
		for parent, u := range all {
			if parent == nil {
				continue
			}
			if home, ok := (*parent).(*keyEntries[K]); ok && home.group == g && !yield(home.key, u) {
				return
			}
		}
	}
}
