package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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
	defer func() {
		if p := recover(); p != nil {
			w.panicked(r, p)
			more = true // as in the kubelet, a panic does not end the worker
		}
	}()
	state := w.task.Load().present()
	a, gate, more := w.enter(r, start, state)
	if a.decided {
		w.observer.Decided(a.decision)
	}
	if !a.open {
		w.passed(gate)
		if gate.lasts() {
			r.lasting = state
		}
		return more
	}
	t := &r.tick
	*t = Tick{Due: due, Start: start, ContainerID: state.ContainerID, Handler: a.setup.name}
	if w.shared.Trace {
		t.Trace = &r.trace
		a.request.Trace = r.trace.begin()
		defer r.trace.reset()
	}
	w.attempts(r, &a, t)
	t.End = time.Now()
	recorded := w.record(&a, t)
	if recorded.counts {
		w.emit(t)
	}
	w.emitQuarantine(recorded.quarantine)
	switch {
	case recorded.counts:
		w.observer.Tick(t)
	case recorded.skip != "":
		w.observer.Skipped(recorded.skip, 1)
	}
	w.passed(recorded.gate)
	return true
}

// attempt is what the attempts of one tick need, as it was when the tick began.
type attempt struct {
	open       bool           // the tick makes attempts
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
	if gate != Open {
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
	r.context.begin(timeout, now)
	w.flight = r.context
}

// attempts calls the handler, and again at once if it returns an error: [probe.MaxAttempts] times at
// most, and not after a change of the probe. Each attempt has the full timeout.
func (w *Worker) attempts(r *runner, a *attempt, t *Tick) {
	for start := t.Start; ; {
		t.Attempts++
		a.request.Attempt = t.Attempts
		w.once(r, a, t)
		if t.Err == nil || !retries(t.Err) || t.Attempts == probe.MaxAttempts || !w.retry(r, a) {
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
	ctx.watch = watch
	t.Outcome, t.Err = Attempt(ctx, a.setup.handler, a.request)
	if !w.shared.Compat.Has(probe.CompatHostTrouble) && mayBeStalled(ctx, t.Outcome) {
		if lost := ctx.lost(); lost >= minStallToDiscard(a.request.Spec.Timeout) {
			t.Outcome, t.Err = probe.Outcome{}, stallError(lost, a.request.Spec.Timeout, t.Outcome)
		}
	}
	t.Deferred += r.endContext()
}

// Attempt calls h once. It cuts the output, drops details that are not a JSON object or too
// long, and turns a missed deadline into a Failure.
func Attempt(ctx context.Context, h probe.Handler, req probe.Request) (probe.Outcome, error) {
	outcome, err := h.Probe(ctx, req)
	if err != nil && ctx.Err() == context.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded) {
		outcome, err = probe.TimedOut(req.Spec.Timeout), nil
	}
	outcome.Output, outcome.Details = probe.Cut(outcome.Output), objectOf(outcome.Details)
	return outcome, err
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

// record applies the thresholds to the outcome of a tick. It does nothing when the worker was
// stopped, paused or changed since the tick began.
func (w *Worker) record(a *attempt, t *Tick) (r recorded) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flight = nil
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
	case current:
		r.counts = true
		w.countLocked(t)
	}
	return r
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
		w.shared.Event(w, Unhealthy, fmt.Sprintf("%s probe errored and resulted in %s state: %s", title, t.Outcome.Result, probe.Cut(t.Err.Error())))
	case t.Outcome.Result == probe.Warning:
		w.shared.Event(w, ProbeWarning, fmt.Sprintf("%s probe warning: %s", title, t.Outcome.Output))
	case t.Outcome.Result == probe.Failure:
		w.shared.Event(w, Unhealthy, fmt.Sprintf("%s probe failed: %s", title, t.Outcome.Output))
	}
}

// panicked handles a panic in a tick: of a handler, an observer or a [Source].
func (w *Worker) panicked(r *runner, p any) {
	w.mu.Lock()
	w.flight = nil
	w.mu.Unlock()
	r.endContext()
	w.logPanic("probe panicked", p)
	w.skipped(SkipPanic, 1)
}

func (w *Worker) logPanic(message string, p any) {
	info := w.Info()
	cmp.Or(w.shared.Logger, slog.Default()).Error(message, "panic", p, "pod", info.Pod,
		"container", info.Container, "kind", info.Kind, "stack", string(debug.Stack()))
}

// skipped and contained call an observer or the owner outside of a tick. A panic of it does not
// end the runner, which runs other workers too.
func (w *Worker) skipped(reason SkipReason, ticks int) {
	defer w.contain()
	w.observer.Skipped(reason, ticks)
}

func (w *Worker) contained(call func()) {
	defer w.contain()
	call()
}

// contain is deferred.
func (w *Worker) contain() {
	if p := recover(); p != nil {
		w.logPanic("probe panicked", p)
	}
}
