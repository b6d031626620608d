package engine

import "time"

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
	Paused  bool
	// KeepPaused leaves the pause as it is; Paused is not used then.
	KeepPaused bool
}

// Update changes the probe. The attempt under way is cancelled and not counted. A new period
// applies at once: the next tick is due one new period after the last, or now if that has
// passed. Update reports false, and changes nothing, if w has stopped.
func (w *Worker) Update(c Change) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	if !c.KeepRun {
		w.quarantine = nil // the new handler has not failed yet
		if !w.run.hold {
			w.run.length = 0
		}
	}
	w.awakenLocked()
	next := c.compact()
	if period := next.period(); period != w.setup.period() {
		last := w.due - int64(w.step)
		w.step, w.phase = period, 0
		w.due = max(last+int64(w.step), w.shared.schedule.since(time.Now()))
	}
	w.setup, w.blamed = next, w.blamed&^(ofHandler|ofDescriber)
	w.invalidateLocked()
	if !c.KeepPaused {
		w.paused = c.Paused
	}
	if !w.triggered || !w.begun {
		w.armLocked(w.due)
	}
	return true
}

// invalidateLocked cancels the attempt under way, which is not counted.
func (w *Worker) invalidateLocked() {
	w.generation++
	if w.flight != nil {
		w.flight.context.cancel()
	}
}
