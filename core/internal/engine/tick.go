package engine

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// tick probes the container once: enter checks the gates, attempts calls the handler up to
// [probe.MaxAttempts] times, and record applies the thresholds with fold. It reports whether to schedule
// the worker again.
func (w *Worker) tick(r *runner, due, start time.Time) (more bool) {
	state := w.currentState()
	r.state = state
	if state == nil {
		return true
	}
	in, gate, more := w.enter(r, start, state)
	if in.decided {
		w.notify(func(o worker.ProbeObserver) { notifyDecision(o, in.decision) })
	}
	if !in.open {
		w.reportGate(gate)
		switch {
		case staysClosed(gate):
			r.lasting = state
		case gate == worker.InitialDelay:
			r.delayed = state
		}
		return more
	}
	t := &r.tick
	*t = worker.Tick{Due: due, Start: start, ContainerID: state.ContainerID, Handler: in.setup.name}
	if w.shared.Trace {
		t.Trace = &r.trace.Trace
		in.request.Trace = r.trace.begin()
		defer r.trace.reset()
	}
	defer w.conclude(r, &in, t) // deferred: runs even if the handler ends the goroutine
	if in.overdue.IsZero() {
		w.attempts(r, &in, t)
	} else {
		t.Err = overdueError(in.overdue)
	}
	return true
}

// currentState returns the state of the task for a tick. If the [worker.Source] panics, it returns nil and
// the tick is skipped.
func (w *Worker) currentState() (s *worker.State) {
	task := w.task.Load()
	part := seam.Reveal(task)
	if !part.Pulls() {
		return part.Current()
	}
	defer func() {
		if s == nil {
			w.skipped(worker.SkipPanic, 1)
		}
	}()
	w.call(sourceCallback, func() { s = part.Pull(task) })
	return s
}

// conclude records a tick, and notifies observers and events.
func (w *Worker) conclude(r *runner, in *inputs, t *worker.Tick) {
	t.End = time.Now()
	if t.Trace != nil {
		r.trace.end()
	}
	recorded, mine := w.record(r, in, t)
	if !mine {
		return
	}
	defer w.reportGate(recorded.gate) // deferred: runs even if another callback ends the goroutine
	switch {
	case recorded.counts:
		defer w.notify(func(o worker.ProbeObserver) { o.Tick(t) })
	case recorded.skip != "":
		defer w.skipped(recorded.skip, 1)
	}
	defer w.event(worker.ProbeQuarantined, recorded.quarantine)
	if recorded.counts {
		w.emit(t)
	}
}

// inputs has what all attempts of one tick share, as of the start of the tick.
type inputs struct {
	open       bool           // the tick makes attempts, or is an error because of an abandoned one
	overdue    time.Time      // start of the abandoned attempt that is still under way; zero without one
	decided    bool           // the start of the tick has decided a result
	decision   results.Result // the decided result
	setup      setup
	generation uint32
	request    probe.Request
}

// enter returns the inputs of the attempts of this tick, or the closed gate. more reports whether to schedule
// the worker again.
func (w *Worker) enter(r *runner, now time.Time, s *worker.State) (in inputs, gate worker.Gate, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return inputs{}, w.gate, false
	}
	id, adopted, result := w.id, w.adopted, w.decided
	gate, more = w.enterLocked(now, s)
	decided := w.id != id || w.adopted != adopted || w.decided != result
	switch gate {
	case worker.Open:
	case worker.UnderWay:
		return inputs{
			open: true, overdue: w.busyRunner.began, decided: decided, decision: w.decided, setup: w.setup, generation: w.generation,
		}, gate, more
	default:
		return inputs{decided: decided, decision: w.decided}, gate, more
	}
	w.probed = true
	in = inputs{open: true, decided: decided, decision: w.decided, setup: w.setup, generation: w.generation, request: w.requestLocked(s)}
	in.request.Debug = w.shared.Trace && (r.triggered || w.lastResult == probe.Failure || w.lastResult == probe.Unknown)
	w.beginLocked(r, in.request.Spec.Timeout, now)
	if w.shared.ContainerScoped {
		w.followLocked() // another container ends the attempt
	}
	return in, worker.Open, true
}

// requestLocked returns the request of an attempt in the state s.
func (w *Worker) requestLocked(s *worker.State) probe.Request {
	task := w.task.Load()
	return probe.Request{
		Kind: w.kind, Spec: w.setup.spec.Value(), LastResult: w.lastResult, Target: w.setup.targetFor(s.PodIP), PodIP: s.PodIP,
		Pod: task.Pod, Container: task.Container, ContainerID: s.ContainerID,
	}
}

// beginLocked begins an attempt with the context of r.
func (w *Worker) beginLocked(r *runner, timeout time.Duration, now time.Time) {
	if !r.context.begin(&w.observer, timeout, now) {
		r.context = new(attemptContext)
		r.context.begin(&w.observer, timeout, now)
	}
	r.began, w.busyRunner = now, r
}

// attempts calls the handler, and calls it again at once if it returns an error. It makes at most
// [probe.MaxAttempts] attempts, and none after a change of the probe. Each attempt has the full timeout.
func (w *Worker) attempts(r *runner, in *inputs, t *worker.Tick) {
	for start := t.Start; ; {
		t.Attempts++
		in.request.Attempt = t.Attempts
		w.makeAttempt(r, in, t)
		if t.Err == nil || !retries(t.Err) || w.skips(t.Err) || t.Attempts == probe.MaxAttempts || !w.retry(r, in) {
			return
		}
		if in.request.Trace != nil {
			now := time.Now()
			in.request.Trace(probe.TraceEvent{
				Type: probe.TraceRetry, Name: strconv.Itoa(t.Attempts + 1), Detail: t.Err.Error(), Duration: now.Sub(start),
			})
			start, in.request.Debug = now, true
		}
	}
}

// retries reports whether an immediate retry after err may succeed. It cannot without a slot, or while a
// dependency fails. On a host without free processor time it would make things worse.
func retries(err error) bool {
	reason := probe.ReasonOf(err)
	return !errors.Is(err, probe.ErrNoSlot) && reason != probe.ReasonHostStall && reason != probe.ReasonDependency
}

// skips reports whether err is a panic that skips the tick, as in the kubelet.
func (w *Worker) skips(err error) bool {
	_, panicked := errors.AsType[*probe.PanicError](err)
	return panicked && w.shared.Compat.Has(probe.CompatPanicSkips)
}

// retry begins another attempt, unless the worker was stopped, paused or changed meanwhile.
func (w *Worker) retry(r *runner, in *inputs) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != in.generation {
		return false
	}
	w.beginLocked(r, in.request.Spec.Timeout, time.Now())
	return true
}

// makeAttempt makes one attempt with the context of r.
func (w *Worker) makeAttempt(r *runner, in *inputs, t *worker.Tick) {
	ctx := r.context
	watch := w.shared.stalls.begin()
	defer watch.end()
	defer func() { t.Deferred += r.context.end() }()
	ctx.watch = watch
	t.Outcome, t.Err = probe.Outcome{}, probe.ErrGoexit // in case Attempt does not return; another goroutine continues then
	t.Outcome, t.Err = worker.Attempt(ctx, in.setup.handler, in.request)
	if p, ok := errors.AsType[*probe.PanicError](t.Err); ok {
		w.logPanic(handlerCallback, t.Err, p.Stack)
	}
	if !w.shared.Compat.Has(probe.CompatHostTrouble) && isStallCandidate(ctx, t.Outcome) {
		if lost := ctx.lost(); lost >= minStallToDiscard(in.request.Spec.Timeout) {
			t.Outcome, t.Err = probe.Outcome{}, stallError(lost, in.request.Spec.Timeout, t.Outcome)
		}
	}
}

// recorded is the result of record.
type recorded struct {
	counts     bool              // the tick counts, and observers get it
	skip       worker.SkipReason // why the tick was skipped; "" if the worker was stopped or changed meanwhile
	gate       worker.Gate       // after the tick
	quarantine string            // text of the event if a quarantine has begun
}

// record applies the thresholds to the outcome of a tick of the runner by. It does nothing if the worker
// was stopped, paused or changed since the tick began. mine is false for an abandoned tick, which is not
// reported.
func (w *Worker) record(by *runner, in *inputs, t *worker.Tick) (r recorded, mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !in.overdue.IsZero():
		if w.abandoned {
			r.gate = worker.UnderWay
		}
	case w.abandoned && w.busyRunner == by:
		return recorded{}, false
	default:
		w.busyRunner = nil
	}
	current, noSlot := w.generation == in.generation, errors.Is(t.Err, probe.ErrNoSlot)
	if current {
		r.quarantine = w.noteQuarantineLocked(t)
	}
	if !t.Quarantined.IsZero() {
		r.gate = worker.Quarantined
	}
	switch {
	case noSlot && r.gate == worker.Quarantined:
		r.skip = worker.SkipQuarantine
	case noSlot:
		r.skip = worker.SkipNoSlot
	case w.skips(t.Err):
		r.skip = worker.SkipPanic
	case current:
		r.counts = true
		w.countLocked(by, t)
		w.handlerCounted = w.handlerCounted || t.Counted && !by.outdated
	}
	return r, true
}

// countLocked counts the result of a tick of the runner by, and sets the fields of t that depend on it.
func (w *Worker) countLocked(by *runner, t *worker.Tick) {
	w.lastResult = t.Outcome.Result
	t.Before, t.RunBefore = w.decided, w.run.length
	if spec := w.setup.spec.Value(); t.Err == nil || w.countsAsFailure(spec, t.Err) {
		t.Counted, t.Result = true, results.Failure
		if t.Err == nil {
			t.Result = counted(t.Outcome.Result, spec)
		}
		var decided bool
		w.run, t.Threshold, decided = fold(w.run, w.kind, spec, w.task.Load().NoRestart, t.Result)
		if decided {
			t.First = w.initial && t.Before == results.Failure && t.Result == results.Failure && !w.shared.Compat.Has(probe.CompatInitialFailure)
			if t.First {
				w.storeLocked(t.Result, causeOf(t), true)
			} else {
				w.decideLocked(t.Result, causeOf(t))
			}
		}
	}
	w.followPeriodLocked(by)
	t.Run, t.OnHold, t.Next = shownRun(t, w.run), w.run.hold, w.nextLocked(t.End)
	t.After = w.decided
}

// countsAsFailure reports whether err counts as a Failure by errorPolicy: failure.
func (w *Worker) countsAsFailure(spec probe.Spec, err error) bool {
	return spec.ErrorPolicy == probe.CountAsFailure && probe.ReasonOf(err) != probe.ReasonDependency &&
		(w.shared.Compat.Has(probe.CompatHostTrouble) || !probe.IsHostTrouble(err))
}

// shownRun returns the length of the run for observers. At a hold fold resets the length, so shownRun
// returns the threshold instead.
func shownRun(t *worker.Tick, r run) int {
	if t.Counted && r.hold {
		return t.Threshold
	}
	return r.length
}

// emit sends the event of the tick, if it has one, with the kubelet's text.
func (w *Worker) emit(t *worker.Tick) {
	if w.shared.Event == nil {
		return
	}
	title := w.kind.Title()
	switch {
	case t.Err != nil:
		w.event(worker.Unhealthy, fmt.Sprintf("%s probe errored and resulted in %s state: %s", title, t.Outcome.Result, probe.Cut(t.Err.Error())))
	case t.Outcome.Result == probe.Warning:
		w.event(worker.ProbeWarning, fmt.Sprintf("%s probe warning: %s", title, t.Outcome.Output))
	case t.Outcome.Result == probe.Failure:
		w.event(worker.Unhealthy, fmt.Sprintf("%s probe failed: %s", title, t.Outcome.Output))
	}
}

// event sends an event unless text is empty.
func (w *Worker) event(reason worker.EventReason, text string) {
	if text != "" && w.shared.Event != nil {
		w.call(eventCallback, func() { w.shared.Event(w, reason, text) })
	}
}
