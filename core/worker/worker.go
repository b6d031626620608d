// Package worker runs one probe: its schedule, gates, attempts and thresholds.
//
// Read tick.go first: [Worker.tick] is one run from top to bottom. fold.go is the threshold
// rule. worker.go is the schedule: when a worker ticks, and what triggers and stops it.
// change.go pauses, resumes and changes a worker; stall.go detects that the agent itself did
// not run. container.go is what a worker knows of its container.
//
// test/oracle/mutants/list.go quotes lines of this package and of its siblings: after a change of
// such a line, change the quotation too.
package worker

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// Shared is what all workers of a manager share. It is read-only after the first [New].
type Shared struct {
	Results    [len(probe.Kinds)]*results.Cache // by kind
	Scheduler  Scheduler                        // nil: [RuntimeTimers]
	Observers  []Observer
	Event      func(w *Worker, reason EventReason, message string) // nil: events are dropped; must not block
	AgentStart time.Time
	// RestartGrace is how long before AgentStart a container must have started to count as
	// probed by an earlier agent (kubelet: 10 s).
	RestartGrace time.Duration
	Compat       probe.Compat
	Logger       *slog.Logger // nil: slog's default

	stalls stallMeter
}

// Config is one probe.
type Config struct {
	Info    Info
	Spec    probe.Spec
	Handler probe.Handler
	// Target returns the target for the IP of the pod; nil: that IP. It is called with the
	// worker locked, and must not block or call the worker.
	Target    func(podIP string) probe.Target
	Container *Container
	// Delay is how long after [Worker.Start] the first tick is due.
	Delay time.Duration
	// Phase is how long after the first tick the second is due; 0 means a period.
	Phase  time.Duration
	Paused bool
	// Observer observes the ticks of this probe, before the observers of [Shared]; may be nil.
	Observer ProbeObserver
	// Ended is called once, when the worker has ended without a Stop; may be nil.
	Ended func(*Worker)
}

// Worker probes one container for one kind of probe. Its methods are safe for
// concurrent use and return without waiting for an attempt.
type Worker struct {
	shared    *Shared
	info      Info
	ended     func(*Worker)
	observers []ProbeObserver // read-only after New
	timer     Timer
	delay     time.Duration  // from Start to the first tick
	idle      sync.WaitGroup // ticks under way

	mu         sync.Mutex
	container  *Container
	spec       probe.Spec
	handler    probe.Handler
	target     func(podIP string) probe.Target
	generation uint32        // of spec, handler and target
	phase      time.Duration // from the first due time to the second; 0 once it is used
	step       time.Duration // from the last due time to due
	due        time.Time     // of the next tick
	begun      bool          // the first tick has begun
	ticking    bool          // a tick is under way
	triggered  bool          // tick again as soon as possible
	paused     bool
	stopped    bool
	probed     bool               // the container was probed at least once
	cancel     context.CancelFunc // of the attempt under way
	id         string             // container ID of run and of the entry in the cache
	decided    results.Result     // of that container
	run        run
	lastResult probe.Result // of the last tick's outcome
	quarantine *quarantine  // nil outside of one
}

// New returns a worker that is not started.
func New(shared *Shared, cfg Config) *Worker {
	w := &Worker{
		shared: shared, info: cfg.Info, container: cfg.Container, ended: cfg.Ended,
		spec: cfg.Spec, handler: cfg.Handler, target: cfg.Target, phase: cfg.Phase, step: cfg.Spec.Period, paused: cfg.Paused,
		run:   run{last: results.Success},
		delay: cfg.Delay,
	}
	if cfg.Observer != nil {
		w.observers = append(w.observers, cfg.Observer)
	}
	for _, o := range shared.Observers {
		w.observers = append(w.observers, o.Observe(cfg.Info))
	}
	scheduler := shared.Scheduler
	if scheduler == nil {
		scheduler = RuntimeTimers{}
	}
	w.timer = scheduler.NewTimer(w.fire)
	return w
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
	w.due = time.Now().Add(w.delay)
	w.timer.Reset(w.delay)
}

// Info returns the identity of the probe.
func (w *Worker) Info() Info {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.info
}

// Container returns what w shares with the other workers of its container.
func (w *Worker) Container() *Container {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.container
}

// Reshape replaces what w knows of its container from the next tick on. It is the same
// container with another specification.
func (w *Worker) Reshape(c *Container) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.container = c
}

// fire is called by the timer. It runs the due tick, and then those that have become due or
// were triggered since.
func (w *Worker) fire() {
	if !w.begin() {
		return
	}
	defer w.idle.Done()
	for {
		due, ok := w.next()
		if !ok {
			return
		}
		if !w.tick(due) {
			w.Stop()
			if w.ended != nil {
				w.ended(w)
			}
		}
	}
}

// begin sets ticking, and reports whether the caller is to run the ticks.
func (w *Worker) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.ticking {
		return false
	}
	w.ticking = true
	w.idle.Add(1)
	return true
}

// next returns the due time of the tick to run now and advances the schedule. When no tick is
// due it returns false, after it has set the timer or, for a stopped worker, closed the
// observers.
func (w *Worker) next() (due time.Time, ok bool) {
	due, ok, lost := w.schedule(time.Now())
	if lost > 0 {
		w.skipped(SkipBusy, lost)
	}
	if !ok && w.release() {
		w.closeObservers()
		w.rest()
	}
	return due, ok
}

// schedule takes the tick to run at now off the schedule. lost is the number of due ticks that
// are skipped.
func (w *Worker) schedule(now time.Time) (due time.Time, ok bool, lost int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
		return time.Time{}, false, 0
	case w.triggered && w.begun:
		// A triggered tick restarts the period.
		w.triggered = false
		w.due, w.step = now.Add(w.spec.Period), w.spec.Period
		return now, true, 0
	case w.due.After(now):
		return time.Time{}, false, 0
	}
	w.begun = true
	due, lost = w.advanceLocked(now)
	return due, true, lost
}

// release sets the timer and clears ticking, unless the worker has ended: then its observers
// are closed first.
func (w *Worker) release() (ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return true
	}
	w.ticking = false
	w.armLocked()
	return false
}

func (w *Worker) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticking = false
}

// armLocked sets the timer for the next tick.
func (w *Worker) armLocked() {
	if w.triggered && w.begun {
		w.timer.Reset(0)
	} else {
		w.timer.Reset(time.Until(w.due))
	}
}

// advanceLocked moves due to the first multiple of the period after now, as a [time.Ticker]
// does: of the missed ticks one runs late and the others are skipped. It returns the due time
// of the tick to run and the number of those that are skipped.
func (w *Worker) advanceLocked(now time.Time) (due time.Time, lost int) {
	due = w.due
	w.step, w.phase = cmp.Or(w.phase, w.spec.Period), 0
	w.due = due.Add(w.step)
	if late := now.Sub(w.due); late >= 0 {
		lost, w.step = int(late/w.spec.Period)+1, w.spec.Period
		w.due = w.due.Add(time.Duration(lost) * w.spec.Period)
	}
	return due, lost
}

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
	if w.stopped {
		return
	}
	w.triggered = true
	if !w.ticking && w.begun {
		w.timer.Reset(0)
	}
}

// Stop stops w. When it returns the decided result is removed from the cache and no other will
// be recorded. The attempt under way is cancelled; [Worker.Wait] waits for its end. Stop may be
// called more than once.
func (w *Worker) Stop() { w.Halt()() }

// Halt stops w as [Worker.Stop] does, but calls no observer: it may be called with a lock held.
// The caller must call closeObservers after it has released the lock.
func (w *Worker) Halt() (closeObservers func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return func() {}
	}
	w.stopped = true
	w.invalidateLocked()
	w.timer.Stop()
	if w.id != "" {
		w.cache().Remove(w.id)
	}
	if w.ticking { // fire closes them after the tick under way
		return func() {}
	}
	return w.closeObservers
}

func (w *Worker) closeObservers() {
	for _, o := range w.observers {
		o.Close()
	}
}

// Resting reports whether no tick is under way and no observer is being closed after one.
func (w *Worker) Resting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.ticking
}

// Wait waits until no tick of a stopped worker is under way.
func (w *Worker) Wait() { w.idle.Wait() }

func (w *Worker) cache() *results.Cache { return w.shared.Results[w.info.Kind] }

func (w *Worker) skipped(reason SkipReason, ticks int) {
	for _, o := range w.observers {
		o.Skipped(reason, ticks)
	}
}

// Status is the state of a worker for users.
type Status struct {
	Info        Info
	Spec        probe.Spec
	ContainerID string
	Decided     results.Result
	Run         int
	OnHold      bool
	Paused      bool
	Next        time.Time // zero while paused
	// Quarantine is the end and the reason of a quarantine of the probe by its handler, and
	// QuarantinedSince its beginning; "" and zero without one.
	Quarantine       string
	QuarantinedSince time.Time
}

// Status returns the current state of w.
func (w *Worker) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{
		Info: w.info, Spec: w.spec, ContainerID: w.id, Decided: w.decidedLocked(),
		Run: w.run.length, OnHold: w.run.hold, Paused: w.paused, Next: w.due,
	}
	if w.paused {
		s.Next = time.Time{}
	}
	if q := w.quarantine; q != nil {
		s.Quarantine, s.QuarantinedSince = q.text, q.since
	}
	return s
}

// decidedLocked returns the decided result in the cache. Before the first tick it is that of the
// container of an earlier agent.
func (w *Worker) decidedLocked() results.Result {
	return w.cached(cmp.Or(w.id, w.container.PriorID))
}

// cached returns the result of a container in the cache, or the initial result.
func (w *Worker) cached(id string) results.Result {
	if r, ok := w.cache().Get(id); ok {
		return r
	}
	return InitialResult(w.info.Kind)
}
