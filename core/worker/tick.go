package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// tick probes the container once: enter decides whether to, attempts calls the handler up to
// three times, and record applies the thresholds with fold. It reports whether the worker is
// to be scheduled again.
func (w *Worker) tick(r *runner, due, start time.Time) (more bool) {
	state := w.present()
	if state == nil {
		return true
	}
	a, gate, more := w.enter(r, start, state)
	if a.decided {
		w.tell(func(o ProbeObserver) { tellDecision(o, a.decision) })
	}
	if !a.open {
		w.passed(gate)
		switch {
		case gate.lasts():
			r.lasting = state
		case gate == InitialDelay:
			r.delayed = state
		}
		return more
	}
	t := &r.tick
	*t = Tick{Due: due, Start: start, ContainerID: state.ContainerID, Handler: a.setup.name}
	if w.shared.Trace {
		t.Trace = &r.trace.Trace
		a.request.Trace = r.trace.begin()
		defer r.trace.reset()
	}
	defer w.conclude(r, &a, t) // also when the handler ends the goroutine
	if a.overdue.IsZero() {
		w.attempts(r, &a, t)
	} else {
		t.Err = overdueError(a.overdue)
	}
	return true
}

// present returns the state of the task for a tick. It is nil, and the tick is skipped, if the [Source]
// panics.
func (w *Worker) present() (s *State) {
	task := w.task.Load()
	if !task.pulls.Load() {
		return task.known()
	}
	defer func() {
		if s == nil {
			w.skipped(SkipPanic, 1)
		}
	}()
	w.call(ofSource, func() { s = task.present() })
	return s
}

// conclude records a tick, and tells what it has found.
func (w *Worker) conclude(r *runner, a *attempt, t *Tick) {
	t.End = time.Now()
	if t.Trace != nil {
		r.trace.end()
	}
	recorded, mine := w.record(r, a, t)
	if !mine {
		return
	}
	defer w.passed(recorded.gate) // deferred: a callback that ends the goroutine skips none of the others
	switch {
	case recorded.counts:
		defer w.tell(func(o ProbeObserver) { o.Tick(t) })
	case recorded.skip != "":
		defer w.skipped(recorded.skip, 1)
	}
	defer w.event(ProbeQuarantined, recorded.quarantine)
	if recorded.counts {
		w.emit(t)
	}
}

// attempt is what the attempts of one tick need, as it was when the tick began.
type attempt struct {
	open       bool           // the tick makes attempts, or is overdue
	overdue    time.Time      // when the attempt began that a tick before has left behind; zero without one
	decided    bool           // the beginning of the tick has decided a result
	decision   results.Result // which one
	setup      setup
	generation uint32
	request    probe.Request
}

// enter returns the attempt of this tick, or else the gate that is closed. more reports whether
// the worker is to be scheduled again.
func (w *Worker) enter(r *runner, now time.Time, s *State) (a attempt, gate Gate, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return attempt{}, w.gate, false
	}
	id, adopted, result := w.id, w.adopted, w.decided
	gate, more = w.enterLocked(now, s)
	decided := w.id != id || w.adopted != adopted || w.decided != result
	switch gate {
	case Open:
	case UnderWay:
		return attempt{
			open: true, overdue: w.flight.began, decided: decided, decision: w.decided, setup: w.setup, generation: w.generation,
		}, gate, more
	default:
		return attempt{decided: decided, decision: w.decided}, gate, more
	}
	w.probed = true
	a = attempt{open: true, decided: decided, decision: w.decided, setup: w.setup, generation: w.generation, request: w.requestLocked(s)}
	a.request.Debug = w.shared.Trace && (r.triggered || w.lastResult == probe.Failure || w.lastResult == probe.Unknown)
	w.beginLocked(r, a.request.Spec.Timeout, now)
	return a, Open, true
}

// requestLocked returns the request of an attempt in the state s.
func (w *Worker) requestLocked(s *State) probe.Request {
	task := w.task.Load()
	return probe.Request{
		Kind: w.kind, Spec: w.setup.spec.Value(), LastResult: w.lastResult, Target: w.setup.targetFor(s.PodIP), PodIP: s.PodIP,
		Pod: task.Pod, Container: task.Container, ContainerID: s.ContainerID,
	}
}

// beginLocked makes the context of r that of the attempt under way.
func (w *Worker) beginLocked(r *runner, timeout time.Duration, now time.Time) {
	if !r.context.begin(timeout, now) {
		r.context = new(attemptContext)
		r.context.begin(timeout, now)
	}
	r.began, w.flight = now, r
}

// attempts calls the handler, and again at once if it returns an error: [probe.MaxAttempts] times at
// most, and not after a change of the probe. Each attempt has the full timeout.
func (w *Worker) attempts(r *runner, a *attempt, t *Tick) {
	for start := t.Start; ; {
		t.Attempts++
		a.request.Attempt = t.Attempts
		w.once(r, a, t)
		if t.Err == nil || !retries(t.Err) || w.skips(t.Err) || t.Attempts == probe.MaxAttempts || !w.retry(r, a) {
			return
		}
		if a.request.Trace != nil {
			now := time.Now()
			a.request.Trace(probe.TraceEvent{
				Type: probe.TraceRetry, Name: strconv.Itoa(t.Attempts + 1), Detail: t.Err.Error(), Duration: now.Sub(start),
			})
			start, a.request.Debug = now, true
		}
	}
}

// retries reports whether another attempt at once may do better than one that has ended with err.
// Without a slot it does not. Nor does it on a host without processor time, of which it would take
// more.
func retries(err error) bool {
	return !errors.Is(err, probe.ErrNoSlot) && probe.ReasonOf(err) != probe.ReasonHostStall
}

// skips reports whether err, the error of an attempt, is a panic that skips the tick, as in the kubelet.
func (w *Worker) skips(err error) bool {
	_, panicked := errors.AsType[*probe.PanicError](err)
	return panicked && w.shared.Compat.Has(probe.CompatPanicSkips)
}

// retry begins another attempt, unless the worker was stopped, paused or changed meanwhile.
func (w *Worker) retry(r *runner, a *attempt) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != a.generation {
		return false
	}
	w.beginLocked(r, a.request.Spec.Timeout, time.Now())
	return true
}

// once makes one attempt, with the context of r.
func (w *Worker) once(r *runner, a *attempt, t *Tick) {
	ctx := r.context
	watch := w.shared.stalls.begin()
	defer watch.end()
	defer func() { t.Deferred += r.context.end() }()
	ctx.watch = watch
	t.Outcome, t.Err = probe.Outcome{}, probe.ErrGoexit // unless Attempt returns; then another goroutine goes on
	t.Outcome, t.Err = Attempt(ctx, a.setup.handler, a.request)
	if p, ok := errors.AsType[*probe.PanicError](t.Err); ok {
		w.blame(ofHandler, t.Err, p.Stack)
	}
	if !w.shared.Compat.Has(probe.CompatHostTrouble) && mayBeStalled(ctx, t.Outcome) {
		if lost := ctx.lost(); lost >= minStallToDiscard(a.request.Spec.Timeout) {
			t.Outcome, t.Err = probe.Outcome{}, stallError(lost, a.request.Spec.Timeout, t.Outcome)
		}
	}
}

// Attempt calls h once. It cuts the output and the text of an error, drops details that are not a JSON object
// or too long, turns a missed deadline into a Failure, and a panic into an error.
func Attempt(ctx context.Context, h probe.Handler, req probe.Request) (probe.Outcome, error) {
	outcome, err := probe.Call(ctx, h, req)
	if err != nil && ctx.Err() == context.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded) {
		outcome, err = probe.TimedOut(req.Spec.Timeout), nil
	}
	outcome.Output, outcome.Details = probe.Cut(outcome.Output), objectOf(outcome.Details)
	return outcome, cut(err)
}

// cutError is an error with a shorter text.
type cutError struct {
	error
	text string
}

// Error returns the beginning of the text.
func (e *cutError) Error() string { return e.text }

// Unwrap returns the error.
func (e *cutError) Unwrap() error { return e.error }

// cut returns err with a text of at most [probe.MaxOutput] bytes: quarantines, events and observers keep it.
func cut(err error) error {
	if err == nil {
		return nil
	}
	if text := err.Error(); len(text) > probe.MaxOutput {
		return &cutError{err, probe.Cut(text)}
	}
	return err
}

// objectOf returns details when they are a JSON object of at most [probe.MaxOutput] bytes, and
// "" otherwise.
func objectOf(details string) string {
	if !strings.HasPrefix(details, "{") || len(details) > probe.MaxOutput || !json.Valid([]byte(details)) {
		return ""
	}
	return strings.ToValidUTF8(details, "\uFFFD")
}

// recorded is what became of a tick.
type recorded struct {
	counts     bool       // the tick is shown to observers
	skip       SkipReason // or it was skipped; "" if the worker was stopped or changed meanwhile
	gate       Gate       // after the tick
	quarantine string     // the text of the event when one has begun
}

// record applies the thresholds to the outcome of a tick of the runner by. It does nothing when the
// worker was stopped, paused or changed since the tick began. mine is false for a tick that was left
// behind: w ticks without it, and nobody is told of it.
func (w *Worker) record(by *runner, a *attempt, t *Tick) (r recorded, mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !a.overdue.IsZero():
		if w.left {
			r.gate = UnderWay
		}
	case w.left && w.flight == by:
		return recorded{}, false
	default:
		w.flight = nil
	}
	current, noSlot := w.generation == a.generation, errors.Is(t.Err, probe.ErrNoSlot)
	if current {
		r.quarantine = w.noteQuarantineLocked(t)
	}
	if !t.Quarantined.IsZero() {
		r.gate = Quarantined
	}
	switch {
	case noSlot && r.gate == Quarantined:
		r.skip = SkipQuarantine
	case noSlot:
		r.skip = SkipNoSlot
	case w.skips(t.Err):
		r.skip = SkipPanic
	case current:
		r.counts = true
		w.countLocked(t)
	}
	return r, true
}

// countLocked counts the result of a tick, and fills in what the tick has changed.
func (w *Worker) countLocked(t *Tick) {
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
			w.decideLocked(t.Result, t.cause())
		}
	}
	t.Run, t.OnHold, t.Next = shownRun(t, w.run), w.run.hold, w.nextLocked(t.End)
	t.After = w.decided
}

// countsAsFailure reports whether err counts as a Failure, as errorPolicy: failure asks for.
func (w *Worker) countsAsFailure(spec probe.Spec, err error) bool {
	return spec.ErrorPolicy == probe.CountAsFailure &&
		(w.shared.Compat.Has(probe.CompatHostTrouble) || !probe.IsHostTrouble(err))
}

// shownRun returns the length of the run for observers. fold resets the length on a hold:
// shownRun then returns the threshold that was reached.
func shownRun(t *Tick, r run) int {
	if t.Counted && r.hold {
		return t.Threshold
	}
	return r.length
}

// emit sends the event of the tick, if it has one. The texts are those of the kubelet.
func (w *Worker) emit(t *Tick) {
	if w.shared.Event == nil {
		return
	}
	title := w.kind.Title()
	switch {
	case t.Err != nil:
		w.event(Unhealthy, fmt.Sprintf("%s probe errored and resulted in %s state: %s", title, t.Outcome.Result, probe.Cut(t.Err.Error())))
	case t.Outcome.Result == probe.Warning:
		w.event(ProbeWarning, fmt.Sprintf("%s probe warning: %s", title, t.Outcome.Output))
	case t.Outcome.Result == probe.Failure:
		w.event(Unhealthy, fmt.Sprintf("%s probe failed: %s", title, t.Outcome.Output))
	}
}

// event sends an event with a text, if there is one.
func (w *Worker) event(reason EventReason, text string) {
	if text != "" && w.shared.Event != nil {
		w.call(ofEvent, func() { w.shared.Event(w, reason, text) })
	}
}
