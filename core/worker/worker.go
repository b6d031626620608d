// Package worker runs one probe: its schedule, gates, attempts and thresholds.
//
// Read tick.go first: [Worker.tick] is one scheduled run from top to bottom, and
// fold.go the rule that turns results into decisions. This file holds the worker's
// life: when it ticks, and what triggers or stops it. change.go has what pauses or
// changes it.
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

// Shared is what all workers of a manager have in common. It is read-only once a
// worker was made with it.
type Shared struct {
	Results    [len(probe.Kinds)]*results.Cache // by kind
	Scheduler  Scheduler                        // nil: [RuntimeTimers]
	Observers  []Observer
	Event      func(w *Worker, reason EventReason, message string) // nil: events are dropped; must not block
	AgentStart time.Time
	// RestartGrace is how long before AgentStart a container must have been started
	// to count as one that an earlier agent has probed (kubelet: 10 s).
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
	// Target is called with the worker locked: it must neither block nor call the worker.
	// Nil: the pod's own address.
	Target    func(podIP string) probe.Target
	Container *Container
	// Delay is how long after [Worker.Start] the first tick is due.
	Delay time.Duration
	// Phase is how long after the first tick the second is due; 0 means a period.
	Phase  time.Duration
	Paused bool
	// Observer is told of this probe's ticks, before those of [Shared]; nil is fine.
	Observer ProbeObserver
	// Ended is called once, when the worker has ended by itself; nil is fine.
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
	begun      bool          // the first tick is over or under way
	ticking    bool          // a tick is under way
	triggered  bool          // tick again as soon as possible
	paused     bool
	stopped    bool
	probed     bool               // the present container was probed at least once
	cancel     context.CancelFunc // of the attempt under way
	id         string             // container ID that run and the cache speak of
	decided    results.Result     // what this worker has decided for it last
	run        run
	lastResult probe.Result // of the last tick's outcome
	quarantine *quarantine  // nil outside of one
}

// New makes a worker, which ticks once it is started.
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

// Start lets w tick until it is stopped, its pod ends, or its container cannot run
// again. It is called once, and may be called with a lock held: no observer is called.
func (w *Worker) Start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	w.due = time.Now().Add(w.delay)
	w.timer.Reset(w.delay)
}

// Info returns the probe's name.
func (w *Worker) Info() Info {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.info
}

// Container returns what w shares with its container's other workers.
func (w *Worker) Container() *Container {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.container
}

// Reshape lets w know its container as c from its next tick on. It is the same
// container, of which other things are known now.
func (w *Worker) Reshape(c *Container) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.container = c
}

// fire is called by the timer. It runs the due tick, and those that became due or
// were triggered meanwhile, and then rests.
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

// begin claims the worker for the calling goroutine.
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

// next returns the due time of the tick to run now and moves the schedule on. When
// there is none it lets go of the worker, with the timer armed if there will be one,
// and returns false.
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

// schedule takes the tick to run at now off the schedule. lost counts the due ticks
// that will never run.
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

// release lets the worker rest, unless it has ended, which its observers must know first.
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

// advanceLocked moves due on to the first due time after now, on the grid of the
// period, as a ticker does: of the ticks that were missed one is run late, and the
// others never. It returns the due time of the tick to run and how many are lost.
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

// Trigger makes w tick now, or right after the tick under way; the next periodic
// tick is a full period later.
func (w *Worker) Trigger() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
	w.triggerLocked()
}

// Nudge is what UpdatePodStatus does to the readiness probe of a container that is
// not ready: a [Worker.Trigger] that respects the delay of the first tick. Without
// [probe.CompatTriggerAlways] it does so only until the container is probed for the
// first time (kubernetes#118815).
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

// Stop ends w at once: its decided result is gone from the cache when Stop returns,
// and nothing is recorded any more. An attempt under way is cancelled; [Worker.Wait]
// waits for it. Stop may be called more than once.
func (w *Worker) Stop() { w.Halt()() }

// Halt is Stop for a caller who holds a lock: it tells no observer. What it returns does,
// and is to be called once the lock is not held any more.
func (w *Worker) Halt() (tell func()) {
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
	if w.ticking { // the tick under way tells them when it is over
		return func() {}
	}
	return w.closeObservers
}

func (w *Worker) closeObservers() {
	for _, o := range w.observers {
		o.Close()
	}
}

// Resting reports whether no tick is under way, nor the observers being told of the end
// that came in one.
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

// Status is what can be seen of a worker from outside.
type Status struct {
	Info        Info
	Spec        probe.Spec
	ContainerID string
	Decided     results.Result
	Run         int
	OnHold      bool
	Paused      bool
	Next        time.Time // zero while paused
	// Quarantine says until when, and why, the handler lets the probe rest, and
	// QuarantinedSince from when on; "" and zero outside of a quarantine.
	Quarantine       string
	QuarantinedSince time.Time
}

// Status returns the worker's present state.
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

// decidedLocked returns the decided result as the cache has it: of the container that
// an earlier agent knew, until the first tick has seen one.
func (w *Worker) decidedLocked() results.Result {
	return w.cached(cmp.Or(w.id, w.container.PriorID))
}

// cached returns what the cache says of a container, or the initial result.
func (w *Worker) cached(id string) results.Result {
	if r, ok := w.cache().Get(id); ok {
		return r
	}
	return InitialResult(w.info.Kind)
}
