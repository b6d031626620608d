package engine

import (
	"time"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/worker"
)

// With [Shared].ContainerScoped the schedule of a worker begins with each of its containers: it ticks when its task
// publishes that a container runs, or that its startup probe has succeeded, at the end of the initial delay, and at
// multiples of the period from there. So it has its task wake it also when it is not asleep. Without a task that publishes
// its state, a tick finds a new container up to a period late.

// startScopedLocked makes the first tick due now. A container that ran before the agent was started has the random delay
// of all others: there may be many.
func (w *Worker) startScopedLocked() {
	s := seam.Of(w.task.Load()).Known()
	if !s.Running || !s.StartedAt.Before(w.shared.AgentStart) {
		w.due, w.phase = 0, 0
	}
	w.followLocked()
}

// wakeScopedLocked is called after a change of the state while w is not asleep. A new container makes w due now, and
// ends the attempt for the one before.
func (w *Worker) wakeScopedLocked() {
	s := seam.Of(w.task.Load()).Known()
	begins := s.Running && s.ContainerID != w.id
	switch {
	case w.ticking && begins && w.flight != nil && !w.left:
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

// restScopedLocked is called at the end of a tick of a worker that does not sleep. It reports whether another container
// runs by now: then w is due at once.
func (w *Worker) restScopedLocked(r *runner) (begins bool) {
	s := w.followLocked()
	if begins = r.state != nil && s.Running && s.ContainerID != r.state.ContainerID; begins {
		w.restartLocked()
	}
	return begins
}

// restartLocked restarts the schedule of w.
func (w *Worker) restartLocked() {
	w.due, w.step, w.phase = w.shared.schedule.since(time.Now()), w.setup.period(), 0
}

// followLocked has the task call [Worker.Wake] after its next state, and returns the present one.
func (w *Worker) followLocked() *worker.State {
	task := seam.Of(w.task.Load())
	for {
		s := task.Known()
		if task.Sleep(w, w.kind, s) || task.Known() == s { // or it does not publish
			return s
		}
	}
}
