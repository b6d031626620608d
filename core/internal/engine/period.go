package engine

import (
	"math/rand/v2"
	"time"

	"github.com/daeace23/prober/core/results"
)

// periodLocked returns the present period: the one of an unhealthy container until a Success is decided, and
// from the first counted Failure after it.
func (w *Worker) periodLocked() time.Duration {
	spec := w.setup.spec.Value()
	healthy := w.decided == results.Success && (w.run.length == 0 || w.run.last == results.Success)
	if spec.UnhealthyPeriod == 0 || healthy {
		return spec.Period
	}
	return spec.UnhealthyPeriod
}

// variedLocked returns the time between two due times: the period, with the jitter of the spec.
func (w *Worker) variedLocked() time.Duration {
	spec, period := w.setup.spec.Value(), w.periodLocked()
	if spec.Jitter == 0 {
		return period
	}
	least := max(spec.Timeout, time.Millisecond)
	most := min(time.Duration(spec.Jitter*float64(period)), period-least)
	if most <= 0 {
		return period
	}
	return period - most + rand.N(2*most+1)
}

// followPeriodLocked applies the period after a tick of r, which may have changed the result or the
// container.
func (w *Worker) followPeriodLocked(r *runner) {
	if w.setup.spec.Value().UnhealthyPeriod == 0 {
		return
	}
	if period := w.periodLocked(); period != r.period {
		r.period = period
		w.repaceLocked(time.Now())
	}
}

// repaceLocked makes the next tick due one present period after the last one, or now if that has passed.
func (w *Worker) repaceLocked(now time.Time) {
	last := w.due - int64(w.step)
	w.step, w.phase = w.variedLocked(), 0
	w.due = max(last+int64(w.step), w.shared.schedule.since(now))
}
