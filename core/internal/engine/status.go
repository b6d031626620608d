package engine

import (
	"time"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// Status returns the current state of w.
func (w *Worker) Status() worker.Status {
	state, now := seam.Reveal(w.task.Load()).Current(), time.Now()
	target := w.targetIn(state)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := worker.Status{
		Target: target, Info: w.infoLocked(), Spec: w.setup.spec.Value(), ContainerID: w.containerLocked(), Decided: w.decidedLocked(),
		Run: w.run.length, OnHold: w.run.hold, Paused: w.paused, Gate: w.gateTextLocked(now, state),
	}
	if !w.paused {
		s.Next = w.nextLocked(now)
		s.Window = w.windowLocked()
	}
	if q := w.quarantine; q != nil {
		s.Quarantine, s.QuarantinedSince = q.text, q.since
	}
	return s
}

// maxTarget is the maximum length of [Worker.Target] in bytes.
const maxTarget = 256

// Target returns a description of the target of the next attempt, such as "GET
// https://shop.example/healthz". It is one line of at most 256 bytes, without secrets of the config; see
// [probe.Describer].
func (w *Worker) Target() string {
	return w.targetIn(seam.Reveal(w.task.Load()).Current())
}

// targetIn returns the target in the state s. It calls the handler; if the handler panics, it returns the
// handler's name.
func (w *Worker) targetIn(s *worker.State) (target string) {
	w.mu.Lock()
	req, handler, name := w.requestLocked(s), w.setup.handler, w.setup.name
	w.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			target = name
			w.logPanic(describerCallback, p, nil)
		}
	}()
	return clip.Text(explain.OneLine(probe.Describe(handler, name, &req)), maxTarget)
}

// windowLocked returns the window of periodic ticks.
func (w *Worker) windowLocked() time.Duration {
	s := w.shared.schedule
	return time.Duration(s.window(s.size(w.periodLocked())))
}

// nextLocked returns when the next periodic tick is due.
func (w *Worker) nextLocked(now time.Time) time.Time {
	due := w.due
	if w.asleep {
		due = w.nextDueLocked(w.shared.schedule.since(now))
	}
	return w.shared.schedule.displayTime(due, now)
}

// decidedLocked returns the decided result in the cache. Before the first tick it is the result that an
// earlier agent left, if any.
func (w *Worker) decidedLocked() results.Result {
	task, id := w.task.Load(), w.containerLocked()
	if id == "" {
		id = task.PriorID
		if by := seam.Reveal(w.cache()).Claimant(id); by != nil && by != w.claimer() {
			return w.initialLocked()
		}
	}
	r, _ := w.cached(id)
	return r
}

// containerLocked returns the container ID found by the last tick, "" before the first tick and while
// another task has claimed the ID.
func (w *Worker) containerLocked() string {
	if w.adopted {
		return w.id
	}
	return ""
}
