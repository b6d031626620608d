package engine

import (
	"time"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/worker"
)

// With [Shared].ContainerScoped the schedule of a worker begins with each of its containers. The worker
// ticks when its task publishes that a container runs, or that its startup probe has succeeded, at the end
// of the initial delay, and at multiples of the period from there. So the task wakes the worker even if it
// is not asleep. If a task does not publish its state, a tick may find a new container up to a period late.

// startScopedLocked makes the first tick due now. Containers that ran before the agent was started keep
// their random delay, because there may be many of them.
func (w *Worker) startScopedLocked() {
	s := seam.Reveal(w.task.Load()).Current()
	if !s.Running || !s.StartedAt.Before(w.shared.AgentStart) {
		w.due, w.phase = 0, 0
	}
	w.followLocked()
}

// wakeScopedLocked handles a change of the state while w is not asleep. A new container makes w due now,
// and ends the attempt for the previous container.
func (w *Worker) wakeScopedLocked() {
	s := seam.Reveal(w.task.Load()).Current()
	begins := s.Running && s.ContainerID != w.id
	switch {
	case w.ticking && begins && w.busyRunner != nil && !w.abandoned:
		w.invalidateLocked()
	case w.ticking: // the end of the tick compares the states
	default:
		if begins {
			w.restartLocked()
			w.armDueLocked()
		}
		w.followLocked()
	}
}

// endScopedTickLocked is called at the end of a tick if w does not fall asleep. It reports whether another
// container runs now: then w is due at once.
func (w *Worker) endScopedTickLocked(r *runner) (begins bool) {
	s := w.followLocked()
	if begins = r.state != nil && s.Running && s.ContainerID != r.state.ContainerID; begins {
		w.restartLocked()
	}
	return begins
}

// restartLocked restarts the schedule of w now.
func (w *Worker) restartLocked() {
	w.due, w.step, w.phase = w.shared.schedule.since(time.Now()), w.periodLocked(), 0
}

// followLocked makes the task call [Worker.Wake] at its next state, and returns the present state.
func (w *Worker) followLocked() *worker.State {
	task := seam.Reveal(w.task.Load())
	for {
		s := task.Current()
		if task.Sleep(w, w.kind, s) || task.Current() == s { // or the task does not publish its state
			return s
		}
	}
}
