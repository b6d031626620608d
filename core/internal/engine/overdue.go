package engine

import (
	"fmt"
	"time"

	"github.com/daeace23/prober/probe"
)

// A handler that does not heed the end of its context keeps the goroutine of its tick. A shard looks
// for such handlers now and then. An attempt that is still under way some time after its deadline
// is left behind: the worker ticks again, and each tick is an error, without an attempt, until the
// handler has returned. So a probe has one goroutine at most that hangs, and is not a success for ever.

const (
	// overdueAfter is how long after its deadline an attempt is left behind.
	overdueAfter = 10 * time.Second
	// overdueEvery is how often a shard with attempts under way looks for those that are overdue. An
	// attempt is left behind at the second look: the first may come right after the process was stopped.
	overdueEvery = int64(5 * time.Second)
	// overdueShown is how long after its deadline an attempt is shown as the gate of its probe.
	overdueShown = time.Second
)

func overdueError(began time.Time) error {
	return &probe.Error{Reason: probe.ReasonDeadline, Err: fmt.Errorf(
		"the tick of %s has not ended: the handler does not heed its deadline, or another callback blocks", began.UTC().Format(time.RFC3339))}
}

// overdue returns how long ago the deadline of c was; 0 before it, and without one.
func (c *attemptContext) overdue(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline.IsZero() {
		return 0
	}
	return max(0, now.Sub(c.deadline))
}

// underWayLocked returns how long the attempt under way has lasted, if its deadline was some time ago;
// else 0.
func (w *Worker) underWayLocked(now time.Time) time.Duration {
	if w.flight == nil || !w.left && w.flight.context.overdue(now) < overdueShown {
		return 0
	}
	return now.Sub(w.flight.began)
}

// isOverdue reports whether the tick that r runs for w is overdue.
func (w *Worker) isOverdue(r *runner) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.overdueLocked(r)
}

func (w *Worker) overdueLocked(r *runner) bool {
	return w.flight == r && !w.left && !w.stopped && r.context.overdue(time.Now()) >= overdueAfter
}

// leave leaves the tick of r behind, if it is still overdue, and schedules the next one. A worker that
// was stopped waits for its last tick.
func (w *Worker) leave(r *runner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.overdueLocked(r) {
		return
	}
	w.left, w.ticking = true, false
	w.invalidateLocked()
	if w.triggered && w.begun {
		w.armNowLocked()
	} else {
		w.armDueLocked()
	}
}

// returned ends a tick that was left behind, and reports whether it was one. rested means that it was
// the last thing that a stopped worker waited for.
func (w *Worker) returned(r *runner) (was, rested bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.left || w.flight != r {
		return false, false
	}
	w.left, w.flight = false, nil
	return true, w.restedLocked()
}

// watchLocked makes the shard look for overdue attempts while there are runners with a tick.
func (s *shard) watchLocked(now int64) {
	if s.watch == never {
		s.watch = now + overdueEvery
	}
}

// lookLocked returns the ticks under way that may be overdue.
func (s *shard) lookLocked(now int64) (found []flight) {
	s.watch = never
	for r := range s.runners {
		if r.worker == nil {
			continue
		}
		s.watch = now + overdueEvery
		if now-r.taken >= int64(overdueAfter) {
			found = append(found, flight{r, r.worker, r.taken})
		}
	}
	return found
}

// flight is a tick under way.
type flight struct {
	runner *runner
	worker *Worker
	taken  int64
}

// look leaves behind what is overdue for the second time, with no lock held.
func (f flight) look() {
	if f.worker.isOverdue(f.runner) && f.runner.suspect.Swap(f.taken) == f.taken {
		f.worker.leave(f.runner)
	}
}
