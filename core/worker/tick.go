package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// tick probes the container once: gate decides whether to, attempts calls the handler up to
// three times, and record applies the thresholds with fold. It reports whether the worker is
// to be scheduled again.
func (w *Worker) tick(due time.Time) (more bool) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			w.panicked(p)
			more = true // as in the kubelet, a panic does not end the worker
		}
	}()
	state := w.Container().Source.State()
	a, decision := w.gate(start, state)
	if decision != probeNow {
		return decision != endWorker
	}
	t := Tick{Due: due, Start: start, ContainerID: state.ContainerID, Handler: a.name}
	t.Outcome, t.Attempts, t.Err = w.attempts(a)
	t.End = time.Now()
	var event string
	t.Quarantined, event = w.noteQuarantine(a.generation, start, t.Err)
	if errors.Is(t.Err, probe.ErrNoSlot) {
		reason := SkipNoSlot
		if !t.Quarantined.IsZero() {
			reason = SkipQuarantine
		}
		w.skipped(reason, 1)
		w.emitQuarantine(event)
		return true
	}
	if !w.record(a.generation, &t) {
		return true
	}
	w.emit(&t)
	w.emitQuarantine(event)
	for _, o := range w.observers {
		o.Tick(&t)
	}
	return true
}

func (w *Worker) panicked(p any) {
	cmp.Or(w.shared.Logger, slog.Default()).Error("probe panicked", "panic", p, "pod", w.info.Pod,
		"container", w.info.Container, "kind", w.info.Kind, "stack", string(debug.Stack()))
	w.skipped(SkipPanic, 1)
}

// gateDecision is what a tick does after the gate.
type gateDecision uint8

const (
	probeNow  gateDecision = iota // make attempts
	skipTick                      // make no attempt at this tick
	endWorker                     // make no attempt, and stop the worker
)

// attempt is what the attempts of one tick need, as it was when the tick passed the gate.
type attempt struct {
	handler    probe.Handler
	name       string
	request    probe.Request
	generation uint32
}

// gate decides whether this tick probes, and sets the results that need no attempt: those of a
// new container, of one that does not run, and of liveness and startup while the pod is being
// deleted. The checks and
// their order are those of the kubelet's doProbe.
func (w *Worker) gate(now time.Time, s State) (attempt, gateDecision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
		return attempt{}, skipTick
	case !s.Found:
		return attempt{}, skipTick
	case s.PodEnded:
		return attempt{}, endWorker
	case s.ContainerID == "":
		return attempt{}, skipTick
	}
	if s.ContainerID != w.id {
		w.adoptLocked(s)
	}
	if w.run.hold {
		return attempt{}, skipTick
	}
	if !s.Running {
		w.setLocked(results.Failure, results.NotRunning)
		if s.MayRestart {
			return attempt{}, skipTick
		}
		return attempt{}, endWorker
	}
	if s.Deleting && w.info.Kind != probe.Readiness {
		w.setLocked(results.Success, results.Terminating) // no restarts during the shutdown
		return attempt{}, endWorker
	}
	if w.tooEarlyLocked(now, s) {
		return attempt{}, skipTick
	}
	// A startup probe stops once the container has started. The others begin then.
	if s.Started == (w.info.Kind == probe.Startup) {
		return attempt{}, skipTick
	}
	if w.paused {
		return attempt{}, skipTick
	}
	return w.attemptLocked(s), probeNow
}

// tooEarlyLocked reports whether the initial delay is not over. As in the kubelet the age of
// the container counts in whole seconds, unless the delay itself has a fraction.
func (w *Worker) tooEarlyLocked(now time.Time, s State) bool {
	age := now.Sub(s.StartedAt)
	if w.spec.InitialDelay%time.Second == 0 {
		age = age.Truncate(time.Second)
	}
	return age < w.spec.InitialDelay
}

// adoptLocked makes s.ContainerID the container of w and sets its first decided result.
func (w *Worker) adoptLocked(s State) {
	if w.id != "" {
		w.cache().Remove(w.id)
	}
	w.id, w.probed = s.ContainerID, false
	w.decided = w.cached(w.id)
	compat := w.shared.Compat
	inherits := s.Running && !s.StartedAt.IsZero() && s.StartedAt.Before(w.shared.AgentStart.Add(-w.shared.RestartGrace))
	if !compat.Has(probe.CompatInheritReplaced) {
		// kubernetes#141487: only a container that the earlier agent knew keeps its result.
		inherits = inherits && s.ContainerID == w.container.PriorID
	}
	seedsStarted := w.container.Sidecar && w.info.Kind == probe.Startup && s.Started // kubernetes#136910
	switch {
	case compat.Has(probe.CompatStatusOnRestart):
		w.setLocked(InitialResult(w.info.Kind), results.Initial)
	case compat.Has(probe.CompatSeedStaleStarted):
		if seedsStarted {
			w.setLocked(results.Success, results.Initial)
		}
		if !inherits {
			w.setLocked(InitialResult(w.info.Kind), results.Initial)
		}
	case !inherits:
		w.setLocked(InitialResult(w.info.Kind), results.Initial)
	case seedsStarted:
		w.setLocked(results.Success, results.Initial)
	}
	w.run.hold = false
	if !compat.Has(probe.CompatKeepRun) {
		w.run.length = 0 // results of the old container do not count for the new one
	}
}

func (w *Worker) setLocked(r results.Result, why results.Reason) {
	w.decided = r
	w.cache().Set(w.id, r, &w.info.Subject, why)
}

// attemptLocked returns the attempt that this tick makes.
func (w *Worker) attemptLocked(s State) attempt {
	w.probed = true
	target := probe.Target{Host: s.PodIP}
	if w.target != nil {
		target = w.target(s.PodIP)
	}
	return attempt{
		handler:    w.handler,
		name:       w.info.Handler,
		generation: w.generation,
		request: probe.Request{
			Kind: w.info.Kind, Spec: w.spec, LastResult: w.lastResult, Target: target, PodIP: s.PodIP,
			Pod: w.container.Pod, Container: w.container.Container, ContainerID: s.ContainerID,
		},
	}
}

// attempts calls the handler, and again at once if it returns an error: [probe.MaxAttempts] times at
// most, and not after [probe.ErrNoSlot] or a change of the probe. Each attempt has the full timeout.
func (w *Worker) attempts(a attempt) (outcome probe.Outcome, made int, err error) {
	for made < probe.MaxAttempts {
		made++
		a.request.Attempt = made
		outcome, err = w.once(a)
		if err == nil || errors.Is(err, probe.ErrNoSlot) || !w.current(a.generation) {
			break
		}
	}
	return outcome, made, err
}

// once makes one attempt, with a deadline of its own.
func (w *Worker) once(a attempt) (probe.Outcome, error) {
	ctx, cancel := context.Background(), context.CancelFunc(nil)
	if timeout := a.request.Spec.Timeout; timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	if !w.attemptBegins(a.generation, cancel) {
		return probe.Outcome{}, context.Canceled
	}
	defer w.attemptEnds()
	watch := w.shared.stalls.begin()
	defer watch.end()
	outcome, err := Attempt(ctx, a.handler, a.request)
	if w.shared.Compat.Has(probe.CompatHostTrouble) || !mayBeStalled(ctx, outcome) {
		return outcome, err
	}
	if lost := watch.lost(); lost >= minStallToDiscard(a.request.Spec.Timeout) {
		return probe.Outcome{}, stallError(lost, a.request.Spec.Timeout, outcome)
	}
	return outcome, err
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

func (w *Worker) attemptBegins(generation uint32, cancel context.CancelFunc) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != generation {
		return false
	}
	w.cancel = cancel
	return true
}

func (w *Worker) attemptEnds() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel = nil
}

// current reports whether generation is that of w: if not, w was stopped, paused or changed
// since.
func (w *Worker) current(generation uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.generation == generation
}

// record applies the thresholds to the outcome of a tick. It reports false, and does nothing,
// when the worker was stopped, paused or changed since the tick began.
func (w *Worker) record(generation uint32, t *Tick) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != generation {
		return false
	}
	w.lastResult = t.Outcome.Result
	t.Before = w.decided
	if t.Err == nil || w.countsAsFailure(t.Err) {
		w.countLocked(t)
	}
	t.Run, t.OnHold, t.Next = shownRun(t, w.run), w.run.hold, w.due
	t.After = w.decided
	return true
}

// countsAsFailure reports whether err counts as a Failure, as errorPolicy: failure asks for.
func (w *Worker) countsAsFailure(err error) bool {
	return w.spec.ErrorPolicy == probe.CountAsFailure &&
		(w.shared.Compat.Has(probe.CompatHostTrouble) || !probe.IsHostTrouble(err))
}

func (w *Worker) countLocked(t *Tick) {
	t.Counted = true
	t.Result = results.Failure
	if t.Err == nil {
		t.Result = counted(t.Outcome.Result, w.spec)
	}
	var decided bool
	w.run, t.Threshold, decided = fold(w.run, w.info.Kind, w.spec, w.container.NoRestart, t.Result)
	if decided {
		w.setLocked(t.Result, t.reason())
	}
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
	title := w.info.Kind.Title()
	switch {
	case t.Err != nil:
		w.shared.Event(w, Unhealthy, fmt.Sprintf("%s probe errored and resulted in %s state: %s", title, t.Outcome.Result, t.Err))
	case t.Outcome.Result == probe.Warning:
		w.shared.Event(w, ProbeWarning, fmt.Sprintf("%s probe warning: %s", title, t.Outcome.Output))
	case t.Outcome.Result == probe.Failure:
		w.shared.Event(w, Unhealthy, fmt.Sprintf("%s probe failed: %s", title, t.Outcome.Output))
	}
}
