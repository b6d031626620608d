package engine

import (
	"time"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Pause stops attempts until [Worker.Resume]. The decided result stays. The attempt under way is cancelled
// and not counted.
func (w *Worker) Pause() { w.Force(worker.Open) }

// Force is Pause with the result of a gate, until the pause ends or [Worker.Force] is called again. Then the
// decided result is again the one of before. The gate [worker.Open] has no result: it pauses only.
func (w *Worker) Force(gate worker.Gate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.paused {
		w.paused = true
		w.invalidateLocked()
	}
	w.forceLocked(gate)
}

// forceLocked replaces the forced result, and makes w tick now, so that observers get the gate.
func (w *Worker) forceLocked(gate worker.Gate) {
	if w.stopped || w.forced == gate {
		return
	}
	w.forced = gate
	if w.stored {
		shown, ok := gate.Forced()
		if !ok {
			shown = w.decided
		}
		seam.Reveal(w.cache()).Set(w.id, shown, w.claimer(), results.Cause{Reason: results.Forced}, false)
	}
	w.begun = true
	w.triggerLocked()
}

// Resume ends a pause, and makes w tick now as [Worker.Trigger] does.
func (w *Worker) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused {
		w.paused, w.begun = false, true
		w.forceLocked(worker.Open)
		w.triggerLocked()
	}
}

// Change is the new configuration of a probe.
type Change struct {
	Setup
	// KeepRun keeps the run of equal results, because handler and configuration are unchanged.
	KeepRun bool
	// KeepAttempt keeps the attempt under way unless its timeout or target changes. The handler must be
	// unchanged.
	KeepAttempt bool
	Paused      bool
	// KeepPaused keeps the pause as it is, and ignores Paused.
	KeepPaused bool
}

// Update changes the probe. It returns false, and changes nothing, if w has stopped.
//
// If the handler, target or timeout changes, the attempt under way is cancelled and not counted, and a new
// one begins at once; keepsAttemptLocked has the exception. After other changes the attempt continues, and
// counts by the new thresholds.
//
// If w is on hold after a Failure, any of these changes, or one of the thresholds or policies, ends the hold
// and makes w tick now. A new period applies at once: the next tick is due one new period after the last
// one, or now if that time has passed. A shorter initial delay applies at once too.
func (w *Worker) Update(c Change) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	next, now, state := c.compact(), time.Now(), seam.Reveal(w.task.Load()).Current()
	before, after := w.setup.spec.Value(), next.spec.Value()
	other := !c.KeepAttempt || next.target != w.setup.target || after.Timeout != before.Timeout
	sooner := after.InitialDelay < before.InitialDelay && w.gateLocked(now, state) == worker.InitialDelay
	period := w.periodLocked()
	if !c.KeepRun {
		w.newRunLocked()
	}
	again := w.run.hold && w.decided == results.Failure && (other || rule(&after) != rule(&before))
	if again {
		w.run.hold = false
	}
	w.awakenLocked()
	w.setup, w.loggedPanics = next, w.loggedPanics&^(handlerCallback|describerCallback)
	if w.periodLocked() != period {
		w.repaceLocked(now)
	}
	if sooner {
		w.delayEndsLocked(state)
	}
	if !c.KeepPaused && w.paused != c.Paused {
		w.paused = c.Paused
		if w.paused {
			w.invalidateLocked()
		}
	}
	if other && w.busyRunner != nil && !w.abandoned && !w.keepsAttemptLocked() {
		w.invalidateLocked()
		w.redo, again = true, true
	}
	switch {
	case again && !w.paused:
		w.triggered = true
		w.armNowLocked()
	case !w.triggered || !w.begun:
		w.armDueLocked()
	}
	return true
}

// newRunLocked begins a new run for a new handler, which has not failed yet. It keeps the run if the
// present handler has no counted result: otherwise w would never decide while handlers are replaced faster
// than their attempts end.
func (w *Worker) newRunLocked() {
	w.quarantine = nil
	if w.handlerCounted && !w.run.hold {
		w.run.length = 0
	}
	w.handlerCounted = false
}

// rule returns the fields of a spec that decide how results count.
func rule(s *probe.Spec) probe.Spec {
	return probe.Spec{
		SuccessThreshold: s.SuccessThreshold, FailureThreshold: s.FailureThreshold,
		WarningIsFailure: s.WarningIsFailure, ErrorPolicy: s.ErrorPolicy,
	}
}

// keepsAttemptLocked reports whether a change keeps the attempt under way, so that it counts. It does if
// the attempt replaces one that an earlier change has cancelled, and has a timeout. So at least every
// second attempt counts, even if the probe changes more often than an attempt takes.
func (w *Worker) keepsAttemptLocked() bool {
	r := w.busyRunner
	if !r.again || r.context.timeout <= 0 {
		return false
	}
	r.outdated = true
	return true
}

// invalidateLocked cancels the attempt under way, so that it does not count.
func (w *Worker) invalidateLocked() {
	w.generation++
	if w.busyRunner != nil {
		w.busyRunner.context.cancel()
	}
}
