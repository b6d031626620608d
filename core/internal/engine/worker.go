// Package engine runs the probes of a group: their schedule, gates, attempts and thresholds.
//
// Read tick.go first: [Worker.tick] is one run from top to bottom. gate.go is why a tick makes no
// attempts, fold.go is the threshold rule. worker.go is when a worker ticks, and what triggers and
// stops it; schedule.go makes the workers tick that are due. callback.go is what happens when others' functions
// panic, and overdue.go when a handler does not return. change.go pauses, resumes and changes
// a worker; scoped.go begins the schedule with the container, in a mode that is off by default. stall.go
// detects that the agent itself did not run. A [worker.Task] is what a worker knows of its container: while
// that keeps a gate closed, the worker sleeps, and does not tick.
//
// test/oracle/mutants/list.go quotes lines of this package and of its siblings: after a change of
// such a line, change the quotation too.
package engine

import (
	"cmp"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Shared is what all workers of a group share. It is read-only after the first [New], and must not
// be copied.
type Shared struct {
	Results   [len(probe.Kinds)]*results.Cache // by kind
	Observers []worker.Observer
	// Event is called by the goroutine of a tick with no lock held, at most twice a tick, and
	// concurrently for different workers. It must not block. Nil drops events.
	Event      func(w *Worker, reason worker.EventReason, message string)
	AgentStart time.Time
	// RestartGrace is how long before AgentStart a container must have started to count as
	// probed by an earlier agent (kubelet: 10 s).
	RestartGrace time.Duration
	Compat       probe.Compat
	// ContainerScoped begins the schedule of a probe with its container; see scoped.go.
	ContainerScoped bool
	// Window is the longest window; 0 means [DefaultWindow].
	Window time.Duration
	// Trace has every attempt traced, for [worker.Tick].Trace.
	Trace  bool
	Logger *slog.Logger // nil: slog's default

	once     sync.Once
	schedule *schedule
	stalls   stallMeter
	claiming sync.Mutex // held while an ID is claimed, which is in all caches or in none
	awaited  awaited
}

// init returns the schedule of all workers. The first call makes it.
func (s *Shared) init() *schedule {
	s.once.Do(func() {
		window := cmp.Or(s.Window, DefaultWindow)
		if s.Compat.Has(probe.CompatExactTimer) {
			window = 0
		}
		s.schedule = newSchedule(window)
	})
	return s.schedule
}

// Stalled returns how long a probe has been due while no other one was run either: a fraction of a
// second at most, unless the process does not run. Many probes that are late because there is too much
// to do are no stall. It does not return while the schedule is locked for ever.
func (s *Shared) Stalled() time.Duration { return s.init().stalled() }

// Setup returns the present setup of w.
func (w *Worker) Setup() Setup {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Setup{w.setup.spec.Value(), w.setup.handler, w.setup.name, w.setup.target.Value()}
}

// Setup is the part of a probe that may change while its worker runs.
type Setup struct {
	Spec    probe.Spec
	Handler probe.Handler
	// Name is the handler's name, for [worker.Info] and [worker.Tick].
	Name string
	// Target is what the handler gets as [probe.Request].Target. Without a Host and Unix its
	// host is the IP of the pod.
	Target probe.Target
}

// setup is a compact Setup. Specs and targets are few: equal ones share memory.
type setup struct {
	spec    unique.Handle[probe.Spec]
	target  unique.Handle[probe.Target]
	handler probe.Handler
	name    string
}

// longest bounds periods and delays, about 73 years: the sum of a few is a valid due time.
const longest = time.Duration(1 << 61)

func (s *Setup) compact() setup {
	spec := s.Spec
	spec.Period = min(spec.Period, longest)
	return setup{unique.Make(spec), unique.Make(s.Target), s.Handler, s.Name}
}

func (s *setup) period() time.Duration { return s.spec.Value().Period }

// targetFor returns the target while the pod has the given IP.
func (s *setup) targetFor(podIP string) probe.Target {
	t := s.target.Value()
	if t.Host == "" && t.Unix == "" {
		t.Host = podIP
	}
	return t
}

// Config is one probe.
type Config struct {
	Setup
	Task *worker.Task
	Kind probe.Kind
	// Delay is how long after [Worker.Start] the first tick is due.
	Delay time.Duration
	// Phase is how long after the first tick the second is due; 0 means a period.
	Phase  time.Duration
	Paused bool
	// Observer observes the ticks of this probe, before the observers of [Shared]; may be nil.
	Observer worker.ProbeObserver
	// Owner is told of the end of the worker; may be nil. It must be a pointer. The worker is
	// smaller if it is the Observer too.
	Owner Owner
}

// Owner owns a worker. Its methods are called with no lock held, and must not block.
type Owner interface {
	// Ended is called once, when the worker has stopped by itself: its pod has ended, or its
	// container cannot run again.
	Ended()
	// Rested is called once, when a stopped worker has ended the tick that was under way, also one
	// whose handler was overdue, and its observers are closed. It is not called if no tick was under way.
	Rested()
}

// Worker probes one container for one kind of probe. Its methods are safe for
// concurrent use and return without waiting for an attempt.
//
// Its fields are in the order of a tick, since most of the price of a tick are the cache lines that
// it reads.
type Worker struct {
	shared    *Shared
	shard     *shard
	scheduled atomic.Int64 // moment of the valid slot in the heap of the shard; never without one
	task      atomic.Pointer[worker.Task]
	observer  observers // read-only; the first one has the owner

	mu         sync.Mutex
	setup      setup
	due        int64         // of the next periodic tick, as in schedule; the delay of the first before Start
	step       time.Duration // from the last due time to due
	flight     *runner       // of the attempt under way, or of the one that was left behind
	quarantine *quarantine   // nil outside of one
	id         string        // container ID of the entry in the cache, which w has claimed
	run        run
	generation uint32         // of setup
	kind       probe.Kind     // read-only
	decided    results.Result // of the container
	lastResult probe.Result   // of the last tick's outcome
	gate       worker.Gate    // that observers know; owned by the tick
	stored     bool           // the cache has decided
	initial    bool           // decided is the initial result
	adopted    bool           // run and decided belong to id
	begun      bool           // the first tick has begun
	ticking    bool           // a tick is under way
	triggered  bool           // tick again as soon as possible
	redo       bool           // a change has dropped the attempt under way
	heard      bool           // the thresholds have counted a result of the present handler
	asleep     bool           // not due before its task has another state
	paused     bool
	started    bool
	stopped    bool
	probed     bool // the container was probed at least once

	awaited bool     // Wait waits for the end of the last tick
	left    bool     // the attempt of flight was left behind
	blamed  callback // those whose panics the log has

	phase time.Duration // from the first due time to the second; 0 once it is used
}

// New returns a worker that is not started.
func New(shared *Shared, cfg Config) *Worker {
	w := new(Worker)
	w.Init(shared, cfg)
	return w
}

// Init is [New] for a worker that is part of a larger struct.
func (w *Worker) Init(shared *Shared, cfg Config) {
	w.shared, w.shard, w.kind = shared, shared.init().shard(), cfg.Kind
	w.setup, w.due, w.phase, w.paused = cfg.compact(), int64(min(cfg.Delay, longest)), min(cfg.Phase, longest), cfg.Paused
	w.step = w.setup.period()
	w.run = run{last: results.Success}
	w.task.Store(cfg.Task)
	w.scheduled.Store(never)
	w.observer.addFirst(cfg.Observer, cfg.Owner)
	w.call(ofSource, func() { seam.Of(cfg.Task).Use(cfg.Task) })
	for _, o := range shared.Observers {
		w.call(ofObserver, func() { w.observer.add(o.Observe(w.Info())) })
	}
	if cfg.Task.PriorID != "" { // of an earlier agent, or an earlier worker
		decided := w.decidedLocked()
		w.tell(func(o worker.ProbeObserver) { tellDecision(o, decided) })
	}
}

// Start starts the schedule. w ticks until it is stopped, its pod has ended, or its container
// cannot run again. Start is called once; it calls no observer and may be called with a lock
// held.
func (w *Worker) Start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	w.started = true
	w.shard.add()
	if w.shared.ContainerScoped {
		w.startScopedLocked()
	}
	w.due += w.shared.schedule.since(time.Now())
	w.armDueLocked()
}

// Info returns the identity of the probe.
func (w *Worker) Info() worker.Info {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.infoLocked()
}

func (w *Worker) infoLocked() worker.Info {
	return worker.Info{Subject: w.task.Load().Subject, Kind: w.kind, Handler: w.setup.name}
}

// Kind returns the kind of the probe.
func (w *Worker) Kind() probe.Kind { return w.kind }

// Task returns what w shares with the other workers of its container.
func (w *Worker) Task() *worker.Task { return w.task.Load() }

// Reshape replaces what w knows of its container from the next tick on. It is the same
// container with another specification. It must not be called with a lock held.
func (w *Worker) Reshape(t *worker.Task) {
	w.call(ofSource, func() { seam.Of(t).Use(t) })
	unused := w.swapTask(t)
	w.call(ofSource, func() { seam.Of(unused).Leave(w, w.kind) })
}

// swapTask makes t the task of w, and returns the one that w does not use any more.
func (w *Worker) swapTask(t *worker.Task) (unused *worker.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return t
	}
	if w.awakenLocked() {
		w.armDueLocked()
	}
	if !seam.Of(t).Join(seam.Of(w.task.Load())) { // t has been in use for another task
		w.dropLocked()
		w.id, w.adopted = "", false
	}
	unused = w.task.Swap(t)
	if w.shared.ContainerScoped && !w.ticking {
		w.followLocked()
	}
	return unused
}

// fire is called by the runner r when w is due: it runs a tick, and sets r.next to when w is due next,
// never if the runner is not to schedule it.
func (w *Worker) fire(r *runner, now time.Time, slot moment) {
	due, lost, ok := w.begin(r, now, slot)
	if !ok {
		return
	}
	r.lasting, r.delayed, r.more = nil, nil, true
	defer w.finish(r) // deferred: also when a callback ends the goroutine
	if lost > 0 {
		w.skipped(worker.SkipBusy, lost)
	}
	r.more = w.tick(r, due, now)
}

// begin takes the tick that was due at slot off the schedule. It returns its due time and how many
// due ticks were lost. It reports false when w is not due any more.
func (w *Worker) begin(r *runner, now time.Time, slot moment) (due time.Time, lost int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.ticking || w.moment() != slot {
		return time.Time{}, 0, false
	}
	w.prefetchLocked()
	w.scheduled.Store(never)
	w.ticking = true
	r.again, r.outdated, w.redo = w.redo, false, false
	at, schedule := w.due, w.shared.schedule
	if r.triggered = w.triggered && w.begun; r.triggered { // a triggered tick restarts the period
		w.triggered = false
		at, w.step, w.phase = schedule.since(now), w.setup.period(), 0
		w.due = at + int64(w.step)
	} else {
		w.begun = true
		lost = w.advanceLocked(schedule.since(now))
	}
	return schedule.at(at, now), lost, true
}

// advanceLocked moves due to the first multiple of the period after now, as a [time.Ticker]
// does: of the missed ticks one runs late and the others are lost.
func (w *Worker) advanceLocked(now int64) (lost int) {
	period := w.setup.period()
	w.step, w.phase = cmp.Or(w.phase, period), 0
	w.due += int64(w.step)
	if late := now - w.due; late >= 0 {
		lost, w.step = int(late/int64(period))+1, period
		w.due += int64(lost) * int64(period)
	}
	return lost
}

// finish ends a tick. It sets r.next to when w is due next, never if it has ended or is asleep.
func (w *Worker) finish(r *runner) {
	if was, rested := w.returned(r); was {
		w.tellRested(rested)
		return
	}
	next, stopped, ended := w.rest(r, r.more)
	r.next = next
	if stopped {
		w.end(ended)
	}
}

// end ends a stopped worker after its tick. Its functions are deferred: a callback that ends the goroutine
// skips none of the others.
func (w *Worker) end(ended bool) {
	defer func() { w.tellRested(w.restForEver()) }()
	defer w.CloseObservers()
	if owner := w.observer.owner(); ended && owner != nil {
		w.call(ofOwner, owner.Ended)
	}
}

// tellRested tells the owner that nothing of w is under way any more.
func (w *Worker) tellRested(rested bool) {
	if owner := w.observer.owner(); rested && owner != nil {
		w.call(ofOwner, owner.Rested)
	}
}

// rest ends the tick of a worker that goes on, and returns when it is due next, never if it is
// asleep now: it sleeps if the gate of the tick lasts, and was not opened meanwhile. For a stopped
// one it does nothing; ended reports whether it was stopped here.
func (w *Worker) rest(r *runner, more bool) (next moment, stopped, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !more && !w.stopped {
		w.haltLocked()
		ended = true
	}
	if w.stopped {
		return never, true, ended
	}
	w.ticking = false
	atOnce := w.triggered && w.begun
	switch {
	case atOnce:
		next = momentOf(w.shared.schedule.since(time.Now()), 0)
	case r.delayed != nil:
		w.delayEndsLocked(r.delayed)
	case r.lasting != nil && w.gateLocked(time.Now(), r.lasting) == w.gate && seam.Of(w.task.Load()).Sleep(w, w.kind, r.lasting):
		w.asleep = true
		return never, false, false
	}
	switch {
	case w.shared.ContainerScoped && w.restScopedLocked(r):
		next = momentOf(w.due, 0)
	case !atOnce:
		next = w.nextMomentLocked()
	}
	w.scheduled.Store(int64(next))
	return next, false, false
}

// Wake makes w due again after its task has got another state: at the next multiple of its period.
func (w *Worker) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.awakenLocked():
		w.armDueLocked()
	case w.shared.ContainerScoped && !w.stopped:
		w.wakeScopedLocked()
	}
}

// awakenLocked ends the sleep of w, and reports whether it was asleep. It is not scheduled then, and
// due is right.
func (w *Worker) awakenLocked() (was bool) {
	if !w.asleep || w.stopped {
		return false
	}
	w.asleep = false
	now := w.shared.schedule.since(time.Now())
	next := w.comingLocked(now)
	switch {
	case w.shared.ContainerScoped:
		next = now
	case w.firstLocked():
		next = min(next, now+int64(longestWait))
	}
	if next != w.due {
		w.due, w.step = next, w.setup.period()
	}
	return true
}

// comingLocked returns due, or the first multiple of the period after it that is later than now.
func (w *Worker) comingLocked(now int64) (due int64) {
	late := now - w.due
	if late < 0 {
		return w.due
	}
	period := int64(w.setup.period())
	return w.due + (late/period+1)*period
}

// restForEver ends the last tick. It reports whether nothing of w is under way any more.
func (w *Worker) restForEver() (rested bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticking = false
	return w.restedLocked()
}

// restedLocked reports whether w has stopped and nothing of it is under way. Then it ends [Worker.Wait].
func (w *Worker) restedLocked() bool {
	if !w.stopped || w.ticking || w.left {
		return false
	}
	if w.awaited {
		w.awaited = false
		w.shared.awaited.end(w)
	}
	return true
}

// armLocked schedules w for m, instead of when it was scheduled for.
func (w *Worker) armLocked(m moment) {
	was := w.moment()
	if was == m || w.ticking || !w.started {
		return
	}
	w.scheduled.Store(int64(m))
	w.shard.push(w, m, was != never)
}

// armNowLocked schedules w for now, without a window.
func (w *Worker) armNowLocked() { w.armLocked(momentOf(w.shared.schedule.since(time.Now()), 0)) }

// armDueLocked schedules w for the next periodic tick. One that is due now does not wait.
func (w *Worker) armDueLocked() {
	m := w.nextMomentLocked()
	if w.due <= w.shared.schedule.since(time.Now()) {
		m = momentOf(w.due, 0)
	}
	w.armLocked(m)
}

// nextMomentLocked returns when the next periodic tick is to run.
func (w *Worker) nextMomentLocked() moment {
	return momentOf(w.due, w.shared.schedule.size(w.setup.period()))
}

// moment returns when w is scheduled.
func (w *Worker) moment() moment { return moment(w.scheduled.Load()) }

// Trigger makes w tick now, or right after the tick under way. The next periodic tick is one
// period later.
func (w *Worker) Trigger() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
	w.triggerLocked()
}

// Nudge is a [Worker.Trigger] that does not shorten the delay of the first tick.
// UpdatePodStatus calls it for the readiness probe of a container that is not ready. Without
// [probe.CompatTriggerAlways] it does nothing once the container was probed
// (kubernetes#118815).
func (w *Worker) Nudge() {
	w.mu.Lock()
	defer w.mu.Unlock()
	always := w.shared.Compat.Has(probe.CompatTriggerAlways)
	if always || w.begun && !w.probed {
		w.triggerLocked()
	}
}

func (w *Worker) triggerLocked() {
	if w.stopped || w.moment().due() < w.nextMomentLocked().due() { // or triggered already
		return
	}
	w.awakenLocked()
	w.triggered = true
	if w.begun {
		w.armNowLocked()
	}
}

// Stop stops w. When it returns the decided result is removed from the cache and no other will
// be recorded. The attempt under way is cancelled; [Worker.Wait] waits for its end. Stop may be
// called more than once.
func (w *Worker) Stop() {
	if w.Halt() {
		w.CloseObservers()
	}
}

// Halt stops w as [Worker.Stop] does, but calls no observer: it may be called with a lock held.
// If it returns true, no tick is under way, and the caller must call [Worker.CloseObservers]
// after it has released the lock.
func (w *Worker) Halt() (resting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	w.haltLocked()
	return !w.ticking
}

func (w *Worker) haltLocked() {
	w.stopped = true
	w.invalidateLocked()
	if w.started {
		w.shard.remove(w.scheduled.Swap(never) != never)
	}
	w.dropLocked()
}

// CloseObservers closes the observers of a worker that was halted; see [Worker.Halt].
func (w *Worker) CloseObservers() {
	defer w.call(ofSource, func() { seam.Of(w.task.Load()).Leave(w, w.kind) })
	w.tell(worker.ProbeObserver.Close)
}

// Release releases a handler of w; see [probe.Releaser].
func (w *Worker) Release(h probe.Handler) { w.call(ofOwner, func() { probe.Release(h) }) }

// Wait waits until the goroutines of all workers of s have ended. All of them must be stopped.
func (s *Shared) Wait() {
	s.init().running.Wait()
}

// Resting reports whether no tick is under way, also none that was left behind, and no observer is being
// closed after one.
func (w *Worker) Resting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.ticking && !w.left
}

// Wait waits until no tick of a stopped worker is under way.
func (w *Worker) Wait() {
	if rested := w.restsLater(); rested != nil {
		<-rested
	}
}

// restsLater returns a channel that is closed at the end of the tick under way; nil if there is none.
func (w *Worker) restsLater() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ticking && !w.left {
		return nil
	}
	w.awaited = true
	return w.shared.awaited.of(w)
}

// awaited are the workers that [Worker.Wait] waits for, with the channels that are closed when their
// last ticks have ended. They are few at any time.
type awaited struct {
	mu  sync.Mutex
	all map[*Worker]chan struct{}
}

func (a *awaited) of(w *Worker) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[*Worker]chan struct{})
	}
	if a.all[w] == nil {
		a.all[w] = make(chan struct{})
	}
	return a.all[w]
}

func (a *awaited) end(w *Worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.all[w])
	delete(a.all, w)
}

// owner returns the owner of the containers of w.
func (w *Worker) owner() *owner { return seam.Of(w.task.Load()).Owner() }

func (w *Worker) cache() *results.Cache { return w.shared.Results[w.kind] }

// adoptLocked makes s.ContainerID the container of w and sets its first decided result. It reports
// false if another task has it: then w has none.
func (w *Worker) adoptLocked(s *worker.State) (adopted bool) {
	w.run.hold, w.probed = false, false
	if w.claimLocked(s.ContainerID) != nil {
		w.decided, w.stored = worker.InitialResult(w.kind), false
		return false
	}
	task := w.task.Load()
	w.adopted = true
	w.decided, w.stored = w.cached(w.id)
	w.initial = false
	compat := w.shared.Compat
	inherits := s.Running && !s.StartedAt.IsZero() && s.StartedAt.Before(w.shared.AgentStart.Add(-w.shared.RestartGrace))
	if !compat.Has(probe.CompatInheritReplaced) {
		// kubernetes#141487: only a container that the earlier agent knew keeps its result.
		inherits = inherits && s.ContainerID == task.PriorID
	}
	initial := results.Cause{Reason: results.Initial}
	seedsStarted := task.Sidecar && w.kind == probe.Startup && s.Started // kubernetes#136910
	switch {
	case compat.Has(probe.CompatStatusOnRestart):
		w.decideLocked(worker.InitialResult(w.kind), initial)
	case compat.Has(probe.CompatSeedStaleStarted):
		if seedsStarted {
			w.decideLocked(results.Success, initial)
		}
		if !inherits {
			w.decideLocked(worker.InitialResult(w.kind), initial)
		}
	case !inherits:
		w.decideLocked(worker.InitialResult(w.kind), initial)
	case seedsStarted:
		w.decideLocked(results.Success, initial)
	}
	if !compat.Has(probe.CompatKeepRun) {
		w.run.length = 0 // results of the old container do not count for the new one
	}
	return true
}

// decideLocked makes r the decided result of the container.
func (w *Worker) decideLocked(r results.Result, why results.Cause) {
	if w.stored && w.decided == r {
		return
	}
	w.storeLocked(r, why, false)
}

// storeLocked stores r as the decided result. With again, readers get an update also if it is that already.
func (w *Worker) storeLocked(r results.Result, why results.Cause, again bool) {
	w.decided, w.stored, w.initial = r, true, why.Reason == results.Initial
	seam.Of(w.cache()).Set(w.id, r, w.owner(), why, again)
}

// cached returns the result of a container in the cache, or else the initial result.
func (w *Worker) cached(id string) (r results.Result, ok bool) {
	if r, ok = w.cache().Get(id); ok {
		return r, true
	}
	return worker.InitialResult(w.kind), false
}
