package worker

import (
	"time"

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
	Spec    probe.Spec
	Handler probe.Handler
	// HandlerName is the handler's name, for [Tick] and [Status].
	HandlerName string
	Target      func(podIP string) probe.Target
	// KeepRun keeps the run of equal results: handler and configuration are the same.
	KeepRun bool
	Paused  bool
	// KeepPaused leaves the pause as it is; Paused is not used then.
	KeepPaused bool
}

// Update changes the probe. The attempt under way is cancelled and not counted. A new period
// applies at once: the next tick is due one new period after the last, or now if that has
// passed.
func (w *Worker) Update(c Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if !c.KeepRun {
		w.quarantine = nil // the new handler has not failed yet
		if !w.run.hold {
			w.run.length = 0
		}
	}
	now := time.Now()
	if c.Spec.Period != w.spec.Period {
		last := w.due.Add(-w.step)
		w.due, w.step = last.Add(c.Spec.Period), c.Spec.Period
		if w.due.Before(now) {
			w.due = now
		}
		w.phase = 0
	}
	w.spec, w.handler, w.target, w.info.Handler = c.Spec, c.Handler, c.Target, c.HandlerName
	w.invalidateLocked()
	if !c.KeepPaused {
		w.paused = c.Paused
	}
	if !w.ticking {
		w.armLocked()
	}
}

// invalidateLocked cancels the attempt under way, which is not counted.
func (w *Worker) invalidateLocked() {
	w.generation++
	if w.cancel != nil {
		w.cancel()
	}
}
