// Package engine runs the probes of a group: their schedule, gates, attempts and thresholds.
//
// Read tick.go first: [Worker.tick] is one run from top to bottom. The other files are:
//
//   - gate.go: why a tick makes no attempts
//   - fold.go: the threshold rule
//   - worker.go: when a worker ticks, is triggered and is stopped
//   - claim.go: one task at a time has a container ID
//   - schedule.go: runs the workers that are due
//   - window.go: runs workers whose due times are close in one batch
//   - prefetch.go, prefetch_asm.go, prefetch_other.go: load the memory of the next worker early
//   - context.go: the context of an attempt
//   - callback.go: panics of functions of other packages
//   - period.go: the present period, and its jitter
//   - overdue.go: handlers that do not return
//   - quarantine.go: handlers that have suspended attempts
//   - observer.go: the observers of a worker, and traces
//   - status.go: the present state of a worker
//   - change.go: pauses, resumes and changes a worker
//   - scoped.go: begins the schedule with the container, in a mode that is off by default
//   - stall.go: detects that the agent itself did not run
//
// A [worker.Task] has the state of the worker's container. While that state keeps a gate closed, the worker
// sleeps and does not tick.
//
// test/oracle/mutants/list.go quotes lines of this package and of its siblings. After a change of such a
// line, change the quotation too.
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

// Shared has the data that all workers of a group share. It is read-only after the first [New], and must
// not be copied.
type Shared struct {
	Results   [len(probe.Kinds)]*results.Cache // by kind
	Observers []worker.Observer
	// Event is called by the goroutine of a tick with no lock held, at most twice in a tick, and
	// concurrently for different workers. It must not block. Nil drops events.
	Event      func(w *Worker, reason worker.EventReason, message string)
	AgentStart time.Time
	// RestartGrace is how long before AgentStart a container must have started to count as probed by an
	// earlier agent (kubelet: 10 s).
	RestartGrace time.Duration
	Compat       probe.Compat
	// ContainerScoped begins the schedule of a probe with its container; see scoped.go.
	ContainerScoped bool
	// Window is the longest window; 0 means [DefaultWindow].
	Window time.Duration
	// Trace records every attempt, for [worker.Tick].Trace.
	Trace  bool
	Logger *slog.Logger // nil: slog's default

	once     sync.Once
	schedule *schedule
	stalls   stallMeter
	claiming sync.Mutex // held while an ID is claimed, in all caches or in none
	awaited  awaited
}

// init returns the schedule of all workers. The first call creates it.
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

// Stalled returns how long a probe has been due while its shard has run no other probe. It is a fraction of
// a second at most while the process runs. Probes that are late because of too much work are no stall.
// Stalled blocks if the schedule is locked forever, as in a deadlock.
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
	// Target is the handler's [probe.Request].Target. If Host and Unix are empty, the host is the pod's IP.
	Target probe.Target
}

// setup is a compact Setup. There are few different specs and targets, so equal ones share memory.
type setup struct {
	spec    unique.Handle[probe.Spec]
	target  unique.Handle[probe.Target]
	handler probe.Handler
	name    string
}

// maxDuration limits periods and delays to about 73 years, so that the sum of a few is a valid due time.
const maxDuration = time.Duration(1 << 61)

func (s *Setup) compact() setup {
	spec := s.Spec
	spec.Period, spec.UnhealthyPeriod = min(spec.Period, maxDuration), min(spec.UnhealthyPeriod, maxDuration)
	return setup{unique.Make(spec), unique.Make(s.Target), s.Handler, s.Name}
}

// targetFor returns the target for a pod with the given IP.
func (s *setup) targetFor(podIP string) probe.Target {
	t := s.target.Value()
	if t.Host == "" && t.Unix == "" {
		t.Host = podIP
	}
	return t
}

// Config configures one probe.
type Config struct {
	Setup
	Task *worker.Task
	Kind probe.Kind
	// Delay is how long after [Worker.Start] the first tick is due.
	Delay time.Duration
	// Phase is the time from the first due time to the second; 0 means a period.
	Phase  time.Duration
	Paused bool
	// Observer observes the ticks of this probe before the observers of [Shared] do; may be nil.
	Observer worker.ProbeObserver
	// Owner is notified of the end of the worker; may be nil. It must be a pointer. If it is also the
	// Observer, the worker takes less memory.
	Owner Owner
}

// Owner owns a worker. Its methods are called with no lock held, and must not block.
type Owner interface {
	// Ended is called once if the worker stops by itself, because its pod has ended or its container cannot
	// run again.
	Ended()
	// Drained is called once, after the tick under way of a stopped worker has ended and its observers are
	// closed. The tick may be one whose handler was overdue. Drained is not called if no tick was under
	// way.
	Drained()
}

// Worker probes one container for one kind of probe. Its methods are safe for concurrent use, and do not
// wait for an attempt unless documented.
//
// The fields are in the order in which a tick uses them, because cache misses dominate a tick.
// See RATIONALE.md, "Where do the bytes of a probe go?"
type Worker struct {
	shared    *Shared
	shard     *shard
	scheduled atomic.Int64 // moment of its valid slot in the heap of the shard; never without one
	task      atomic.Pointer[worker.Task]
	observer  observers // read-only; first has the [Owner]

	mu             sync.Mutex
	setup          setup
	due            int64         // due time of the next periodic tick; before Start, the delay of the first
	step           time.Duration // from the last due time to due
	busyRunner     *runner       // runner of the attempt under way, or of the abandoned one
	quarantine     *quarantine   // nil if not in quarantine
	id             string        // container ID that w has claimed in the cache
	run            run
	generation     uint32         // counts changes that invalidate the attempt under way
	kind           probe.Kind     // read-only
	decided        results.Result // of the container
	lastResult     probe.Result   // of the last tick's outcome
	gate           worker.Gate    // last gate reported to observers; owned by the tick
	forced         worker.Gate    // gate of a forced result; Open without one
	stored         bool           // decided is in the cache
	initial        bool           // decided is the initial result
	adopted        bool           // run and decided belong to id
	begun          bool           // the first tick has begun
	ticking        bool           // a tick is under way
	triggered      bool           // tick again as soon as possible
	redo           bool           // a change has cancelled the attempt under way
	handlerCounted bool           // the thresholds have counted a result of the present handler
	asleep         bool           // not due before the state of the task changes
	paused         bool
	started        bool
	stopped        bool
	probed         bool // the container was probed at least once

	awaited      bool     // Wait waits for the end of the last tick
	abandoned    bool     // the attempt of busyRunner was abandoned
	loggedPanics callback // callbacks whose panic was logged

	phase time.Duration // from the next due time to the one after it, if that is not a period; 0 after use
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
	w.setup, w.due, w.phase, w.paused = cfg.compact(), int64(min(cfg.Delay, maxDuration)), min(cfg.Phase, maxDuration), cfg.Paused
	w.run = run{last: results.Success}
	w.step = w.periodLocked()
	w.task.Store(cfg.Task)
	w.scheduled.Store(never)
	w.observer.addFirst(cfg.Observer, cfg.Owner)
	w.call(sourceCallback, func() { seam.Reveal(cfg.Task).Use(cfg.Task) })
	for _, o := range shared.Observers {
		w.call(observerCallback, func() { w.observer.add(o.Observe(w.Info())) })
	}
	if cfg.Task.PriorID != "" { // left by an earlier agent or worker
		decided := w.decidedLocked()
		w.notify(func(o worker.ProbeObserver) { notifyDecision(o, decided) })
	}
}

// Start starts the schedule. w ticks until it is stopped, its pod has ended, or its container cannot run
// again. Start must be called once. It calls no observer, and may be called with a lock held.
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
	task := w.task.Load()
	info := worker.Info{Subject: task.Subject, Kind: w.kind, Handler: w.setup.name, PodMeta: task.Pod}
	if task.PriorID == "" { // otherwise an earlier result may be known
		info.Initial = w.setup.spec.Value().Initial
	}
	return info
}

// Kind returns the kind of the probe.
func (w *Worker) Kind() probe.Kind { return w.kind }

// Task returns the task of w, which the workers of a container share.
func (w *Worker) Task() *worker.Task { return w.task.Load() }

// Reshape replaces the task of w from the next tick on. The container is the same, with another
// specification. Reshape must not be called with a lock held.
func (w *Worker) Reshape(t *worker.Task) {
	w.call(sourceCallback, func() { seam.Reveal(t).Use(t) })
	unused := w.swapTask(t)
	w.call(sourceCallback, func() { seam.Reveal(unused).Leave(w, w.kind) })
}

// swapTask makes t the task of w, and returns the task that w has stopped using.
func (w *Worker) swapTask(t *worker.Task) (unused *worker.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return t
	}
	if w.awakenLocked() {
		w.armDueLocked()
	}
	if !seam.Reveal(t).Join(seam.Reveal(w.task.Load())) { // t has been in use for another task
		w.dropLocked()
		w.id, w.adopted = "", false
	}
	unused = w.task.Swap(t)
	if w.shared.ContainerScoped && !w.ticking {
		w.followLocked()
	}
	return unused
}

// fire runs a tick of w on the runner r. It sets r.next to the next due time, or to never if the runner
// must not schedule w.
func (w *Worker) fire(r *runner, now time.Time, slot moment) {
	due, lost, ok := w.begin(r, now, slot)
	if !ok {
		return
	}
	r.lasting, r.delayed, r.more = nil, nil, true
	defer w.finish(r) // deferred: runs even if a callback ends the goroutine
	if lost > 0 {
		w.skipped(worker.SkipBusy, lost)
	}
	r.more = w.tick(r, due, now)
}

// begin takes the tick that was due at slot off the schedule. It returns the due time, and the number of
// due ticks that were lost. ok is false if w is not due at slot.
func (w *Worker) begin(r *runner, now time.Time, slot moment) (due time.Time, lost int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.ticking || w.moment() != slot {
		return time.Time{}, 0, false
	}
	w.prefetchLocked()
	w.scheduled.Store(never)
	w.ticking, r.period = true, w.periodLocked()
	r.again, r.outdated, w.redo = w.redo, false, false
	at, schedule := w.due, w.shared.schedule
	if r.triggered = w.triggered && w.begun; r.triggered { // a triggered tick restarts the period
		w.triggered = false
		at, w.step, w.phase = schedule.since(now), w.variedLocked(), 0
		w.due = at + int64(w.step)
	} else {
		w.begun = true
		lost = w.advanceLocked(schedule.since(now))
	}
	return schedule.timeOf(at, now), lost, true
}

// advanceLocked moves due to the first multiple of the period after now, like a [time.Ticker]: one of the
// missed ticks runs late, and the others are lost.
func (w *Worker) advanceLocked(now int64) (lost int) {
	period := w.periodLocked()
	w.step, w.phase = cmp.Or(w.phase, w.variedLocked()), 0
	w.due += int64(w.step)
	if late := now - w.due; late >= 0 {
		lost, w.step = int(late/int64(period))+1, period
		w.due += int64(lost) * int64(period)
	}
	return lost
}

// finish ends a tick. It sets r.next to the next due time, or to never if w has ended or sleeps.
func (w *Worker) finish(r *runner) {
	if was, drained := w.endAbandoned(r); was {
		w.notifyDrained(drained)
		return
	}
	next, stopped, ended := w.endTick(r, r.more)
	r.next = next
	if stopped {
		w.end(ended)
	}
}

// end ends a stopped worker after its tick. Its calls are deferred, so they run even if a callback ends the
// goroutine.
func (w *Worker) end(ended bool) {
	defer func() { w.notifyDrained(w.endLastTick()) }()
	defer w.CloseObservers()
	if owner := w.observer.owner(); ended && owner != nil {
		w.call(ownerCallback, owner.Ended)
	}
}

// notifyDrained notifies the owner if w is drained.
func (w *Worker) notifyDrained(drained bool) {
	if owner := w.observer.owner(); drained && owner != nil {
		w.call(ownerCallback, owner.Drained)
	}
}

// endTick ends the tick. next is when w is due, or never if w sleeps or has stopped. w falls asleep if the
// gate of the tick stays closed and was not opened meanwhile. ended reports whether this tick stops w.
func (w *Worker) endTick(r *runner, more bool) (next moment, stopped, ended bool) {
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
	w.followPeriodLocked(r)
	atOnce := w.triggered && w.begun
	switch {
	case atOnce:
		next = momentOf(w.shared.schedule.since(time.Now()), 0)
	case r.delayed != nil:
		w.delayEndsLocked(r.delayed)
	case r.lasting != nil && w.gateLocked(time.Now(), r.lasting) == w.gate && seam.Reveal(w.task.Load()).Sleep(w, w.kind, r.lasting):
		w.asleep = true
		return never, false, false
	}
	switch {
	case w.shared.ContainerScoped && w.endScopedTickLocked(r):
		next = momentOf(w.due, 0)
	case !atOnce:
		next = w.nextMomentLocked()
	}
	w.scheduled.Store(int64(next))
	return next, false, false
}

// Wake makes w due again after a change of its task's state, at the next multiple of its period. The first
// attempt on a container is due after at most longestWait. With [Shared].ContainerScoped, w is due now if it
// was asleep or if another container runs.
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

// awakenLocked ends the sleep of w and updates due. It reports whether w was asleep. It does not schedule
// w.
func (w *Worker) awakenLocked() (was bool) {
	if !w.asleep || w.stopped {
		return false
	}
	w.asleep = false
	now := w.shared.schedule.since(time.Now())
	next := w.nextDueLocked(now)
	switch {
	case w.shared.ContainerScoped:
		next = now
	case w.firstLocked():
		next = min(next, now+int64(longestWait))
	}
	if next != w.due {
		w.due, w.step = next, w.periodLocked()
	}
	return true
}

// nextDueLocked returns due; if due has passed, the next multiple of the period.
func (w *Worker) nextDueLocked(now int64) (due int64) {
	late := now - w.due
	if late < 0 {
		return w.due
	}
	period := int64(w.periodLocked())
	return w.due + (late/period+1)*period
}

// endLastTick ends the last tick of a stopped worker, and reports whether w is drained.
func (w *Worker) endLastTick() (drained bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticking = false
	return w.drainedLocked()
}

// drainedLocked reports whether w has stopped and has no tick under way. If so, it ends [Worker.Wait].
func (w *Worker) drainedLocked() bool {
	if !w.stopped || w.ticking || w.abandoned {
		return false
	}
	if w.awaited {
		w.awaited = false
		w.shared.awaited.end(w)
	}
	return true
}

// armLocked schedules w for m, in place of its present moment.
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

// armDueLocked schedules w for the next periodic tick. If that is due now, it has no window.
func (w *Worker) armDueLocked() {
	m := w.nextMomentLocked()
	if w.due <= w.shared.schedule.since(time.Now()) {
		m = momentOf(w.due, 0)
	}
	w.armLocked(m)
}

// nextMomentLocked returns the moment of the next periodic tick.
func (w *Worker) nextMomentLocked() moment {
	return momentOf(w.due, w.shared.schedule.size(w.periodLocked()))
}

// moment returns the moment that w is scheduled for.
func (w *Worker) moment() moment { return moment(w.scheduled.Load()) }

// Trigger makes w tick now, or right after the tick under way. The next periodic tick is one
// period later.
func (w *Worker) Trigger() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
	w.triggerLocked()
}

// Nudge is like [Worker.Trigger], but does not shorten the delay of the first tick. UpdatePodStatus calls
// it for the readiness probe of a container that is not ready. Without [probe.CompatTriggerAlways] it does
// nothing after the first attempt on the container (kubernetes#118815).
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

// Stop stops w. When it returns, the decided result is removed from the cache, and no further result is
// recorded. The attempt under way is cancelled; [Worker.Wait] waits for its end. Stop may be called more
// than once.
func (w *Worker) Stop() {
	if w.Halt() {
		w.CloseObservers()
	}
}

// Halt stops w as [Worker.Stop] does, but calls no observer, so it may be called with a lock held. If it
// returns true, no tick is under way, and the caller must call [Worker.CloseObservers] after it has
// released the lock.
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

// CloseObservers closes the observers of a halted worker; see [Worker.Halt].
func (w *Worker) CloseObservers() {
	defer w.call(sourceCallback, func() { seam.Reveal(w.task.Load()).Leave(w, w.kind) })
	w.notify(worker.ProbeObserver.Close)
}

// Release releases a handler of w; see [probe.Releaser].
func (w *Worker) Release(h probe.Handler) { w.call(ownerCallback, func() { probe.Release(h) }) }

// Wait waits until the goroutines of all workers of s have ended. All workers must be stopped.
func (s *Shared) Wait() {
	s.init().running.Wait()
}

// Idle reports whether no tick is under way, including abandoned ones, and no observer is being closed
// after a tick.
func (w *Worker) Idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.ticking && !w.abandoned
}

// Wait waits until a stopped worker has no tick under way.
func (w *Worker) Wait() {
	if drained := w.drainedChan(); drained != nil {
		<-drained
	}
}

// drainedChan returns a channel that is closed at the end of the tick under way; nil if there is none.
func (w *Worker) drainedChan() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ticking && !w.abandoned {
		return nil
	}
	w.awaited = true
	return w.shared.awaited.channel(w)
}

// awaited has the workers that [Worker.Wait] waits for. Their channels are closed when their last ticks
// have ended.
type awaited struct {
	mu       sync.Mutex
	channels map[*Worker]chan struct{}
}

func (a *awaited) channel(w *Worker) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.channels == nil {
		a.channels = make(map[*Worker]chan struct{})
	}
	if a.channels[w] == nil {
		a.channels[w] = make(chan struct{})
	}
	return a.channels[w]
}

func (a *awaited) end(w *Worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.channels[w])
	delete(a.channels, w)
}

// claimer returns the identity under which w claims container IDs. The workers of a task share it.
func (w *Worker) claimer() *claimer { return seam.Reveal(w.task.Load()).Owner() }

func (w *Worker) cache() *results.Cache { return w.shared.Results[w.kind] }

// adoptLocked makes s.ContainerID the container of w, and sets its first decided result. It returns false
// if another task has claimed the ID: then w has no container.
func (w *Worker) adoptLocked(s *worker.State) (adopted bool) {
	w.run.hold, w.probed = false, false
	if w.claimLocked(s.ContainerID) != nil {
		w.decided, w.stored = w.initialLocked(), false
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
		w.decideLocked(w.initialLocked(), initial)
	case compat.Has(probe.CompatSeedStaleStarted):
		if seedsStarted {
			w.decideLocked(results.Success, initial)
		}
		if !inherits {
			w.decideLocked(w.initialLocked(), initial)
		}
	case !inherits:
		w.decideLocked(w.initialLocked(), initial)
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

// storeLocked stores r as the decided result. again sends an update to readers even if r equals the stored
// result.
func (w *Worker) storeLocked(r results.Result, why results.Cause, again bool) {
	w.decided, w.stored, w.initial = r, true, why.Reason == results.Initial
	if forced, ok := w.forced.Forced(); ok && why.Reason != results.NotRunning {
		r, why, again = forced, results.Cause{Reason: results.Forced}, false
	}
	seam.Reveal(w.cache()).Set(w.id, r, w.claimer(), why, again)
}

// cached returns the cached result of a container, or the initial result if there is none.
func (w *Worker) cached(id string) (r results.Result, ok bool) {
	if r, ok = w.cache().Get(id); ok {
		return r, true
	}
	return w.initialLocked(), false
}

// initialLocked returns the decided result of a container before its first probe.
func (w *Worker) initialLocked() results.Result {
	switch w.setup.spec.Value().Initial {
	case probe.Success:
		return results.Success
	case probe.Failure:
		return results.Failure
	default:
		return worker.InitialResult(w.kind)
	}
}
