package engine

import (
	"time"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Pause stops attempts until [Worker.Resume]. The decided result stays. The attempt under way is
// cancelled and not counted.
func (w *Worker) Pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.paused {
		w.paused = true
		w.invalidateLocked()
	}
}

// Resume ends a pause: w ticks now, as by a [Worker.Trigger].
func (w *Worker) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused {
		w.paused, w.begun = false, true
		w.triggerLocked()
	}
}

// Change is the new configuration of a probe.
type Change struct {
	Setup
	// KeepRun keeps the run of equal results: handler and configuration are the same.
	KeepRun bool
	// KeepAttempt keeps the attempt under way, unless its timeout or target is another one. The handler is the same.
	KeepAttempt bool
	Paused      bool
	// KeepPaused leaves the pause as it is; Paused is not used then.
	KeepPaused bool
}

// Update changes the probe. It reports false, and changes nothing, if w has stopped.
//
// Another handler, target or timeout cancels the attempt under way, which is not counted, and made again at once; see
// spareLocked. Other changes keep it: it counts by the new thresholds. All of these changes, and other thresholds
// and policies, end the hold after a failure, and w ticks now. A new period applies at once: the next tick is due one
// new period after the last, or now if that has passed. So does a shorter initial delay.
func (w *Worker) Update(c Change) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	next, now, state := c.compact(), time.Now(), seam.Of(w.task.Load()).Known()
	was, is := w.setup.spec.Value(), next.spec.Value()
	other := !c.KeepAttempt || next.target != w.setup.target || is.Timeout != was.Timeout
	sooner := is.InitialDelay < was.InitialDelay && w.gateLocked(now, state) == worker.InitialDelay
	if !c.KeepRun {
		w.newRunLocked()
	}
	again := w.run.hold && w.decided == results.Failure && (other || rule(&is) != rule(&was))
	if again {
		w.run.hold = false
	}
	w.awakenLocked()
	if period := next.period(); period != w.setup.period() {
		last := w.due - int64(w.step)
		w.step, w.phase = period, 0
		w.due = max(last+int64(w.step), w.shared.schedule.since(now))
	}
	w.setup, w.blamed = next, w.blamed&^(ofHandler|ofDescriber)
	if sooner {
		w.delayEndsLocked(state)
	}
	if !c.KeepPaused && w.paused != c.Paused {
		w.paused = c.Paused
		if w.paused {
			w.invalidateLocked()
		}
	}
	if other && w.flight != nil && !w.left && !w.spareLocked() {
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

// newRunLocked begins a new run, for another handler. That has not failed yet. A run without a result of the present
// handler goes on: w decides also if every handler is replaced before its first attempt has ended.
func (w *Worker) newRunLocked() {
	w.quarantine = nil
	if w.heard && !w.run.hold {
		w.run.length = 0
	}
	w.heard = false
}

// rule returns the part of a spec by which results are decided.
func rule(s *probe.Spec) probe.Spec {
	return probe.Spec{
		SuccessThreshold: s.SuccessThreshold, FailureThreshold: s.FailureThreshold,
		WarningIsFailure: s.WarningIsFailure, ErrorPolicy: s.ErrorPolicy,
	}
}

// spareLocked reports whether a change leaves the attempt under way as it is, to be counted: if it is made in the place
// of one that a change has dropped, and has a timeout. So of a probe that is changed more often than an attempt takes,
// every second attempt counts.
func (w *Worker) spareLocked() bool {
	r := w.flight
	if !r.again || r.context.timeout <= 0 {
		return false
	}
	r.outdated = true
	return true
}

// invalidateLocked cancels the attempt under way, which is not counted.
func (w *Worker) invalidateLocked() {
	w.generation++
	if w.flight != nil {
		w.flight.context.cancel()
	}
}
