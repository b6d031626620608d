package engine

import (
	"fmt"
	"time"

	"github.com/daeace23/prober/probe"
)

// A handler that ignores the end of its context blocks the goroutine of its tick. A shard checks for such
// handlers regularly. An attempt that is still under way some time after its deadline is abandoned: the
// worker ticks again, and each tick is an error without an attempt until the handler returns. So a probe
// blocks at most one goroutine, and does not stay a success forever.

const (
	// overdueAfter is the time after its deadline at which an attempt may be abandoned.
	overdueAfter = 10 * time.Second
	// overdueEvery is the interval at which a shard with attempts under way checks for overdue ones. An
	// attempt is abandoned at the second check, because the first one may follow a suspension of the
	// process.
	overdueEvery = int64(5 * time.Second)
	// overdueShown is the time after its deadline at which an attempt is shown as the gate of its probe.
	overdueShown = time.Second
)

func overdueError(began time.Time) error {
	return &probe.Error{Reason: probe.ReasonDeadline, Err: fmt.Errorf(
		"the tick of %s has not ended: the handler does not heed its deadline, or another callback blocks", began.UTC().Format(time.RFC3339))}
}

// overdue returns the time since the deadline of c; 0 before the deadline, and without one.
func (c *attemptContext) overdue(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline.IsZero() {
		return 0
	}
	return max(0, now.Sub(c.deadline))
}

// underWayLocked returns how long the attempt under way has lasted if it is overdue by overdueShown or
// abandoned, else 0.
func (w *Worker) underWayLocked(now time.Time) time.Duration {
	if w.busyRunner == nil || !w.abandoned && w.busyRunner.context.overdue(now) < overdueShown {
		return 0
	}
	return now.Sub(w.busyRunner.began)
}

// isOverdue reports whether the tick that r runs for w is overdue.
func (w *Worker) isOverdue(r *runner) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.overdueLocked(r)
}

func (w *Worker) overdueLocked(r *runner) bool {
	return w.busyRunner == r && !w.abandoned && !w.stopped && r.context.overdue(time.Now()) >= overdueAfter
}

// abandon abandons the tick of r if it is still overdue, and schedules the next one. A stopped worker does
// not abandon its last tick.
// See RATIONALE.md, "What does a probe do whose handler does not return?"
func (w *Worker) abandon(r *runner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.overdueLocked(r) {
		return
	}
	w.abandoned, w.ticking = true, false
	w.invalidateLocked()
	if w.triggered && w.begun {
		w.armNowLocked()
	} else {
		w.armDueLocked()
	}
}

// endAbandoned ends a tick that was abandoned, and reports whether r ran one. drained reports whether w has
// stopped and has no other tick under way.
func (w *Worker) endAbandoned(r *runner) (was, drained bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.abandoned || w.busyRunner != r {
		return false, false
	}
	w.abandoned, w.busyRunner = false, nil
	return true, w.drainedLocked()
}

// watchLocked makes the shard check for overdue attempts while runners have ticks.
func (s *shard) watchLocked(now int64) {
	if s.watch == never {
		s.watch = now + overdueEvery
	}
}

// findOverdueLocked returns the ticks under way that may be overdue.
func (s *shard) findOverdueLocked(now int64) (found []flight) {
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

// leaveIfOverdue abandons the tick if it is overdue at the second check. No lock is held.
func (f flight) leaveIfOverdue() {
	if f.worker.isOverdue(f.runner) && f.runner.suspect.Swap(f.taken) == f.taken {
		f.worker.abandon(f.runner)
	}
}
