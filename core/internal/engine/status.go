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
	state, now := seam.Of(w.task.Load()).Known(), time.Now()
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

// maxTarget is the most bytes of [Worker.Target].
const maxTarget = 256

// Target returns what an attempt would probe now, for people: "GET https://shop.example/healthz". It is one
// line of at most 256 bytes, without secrets of the config; see [probe.Describer].
func (w *Worker) Target() string {
	return w.targetIn(seam.Of(w.task.Load()).Known())
}

// targetIn returns the target in the state s. It calls the handler; if that panics, the target is its name.
func (w *Worker) targetIn(s *worker.State) (target string) {
	w.mu.Lock()
	req, handler, name := w.requestLocked(s), w.setup.handler, w.setup.name
	w.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			target = name
			w.blame(ofDescriber, p, nil)
		}
	}()
	return clip.Text(explain.OneLine(probe.Describe(handler, name, &req)), maxTarget)
}

// windowLocked returns the window of periodic ticks.
func (w *Worker) windowLocked() time.Duration {
	s := w.shared.schedule
	return time.Duration(s.window(s.size(w.setup.period())))
}

// nextLocked returns when the next periodic tick is due.
func (w *Worker) nextLocked(now time.Time) time.Time {
	due := w.due
	if w.asleep {
		due = w.comingLocked(w.shared.schedule.since(now))
	}
	return w.shared.schedule.shown(due, now)
}

// decidedLocked returns the decided result in the cache. Before the first tick it is that of the
// container of an earlier agent.
func (w *Worker) decidedLocked() results.Result {
	task, id := w.task.Load(), w.containerLocked()
	if id == "" {
		id = task.PriorID
		if by := seam.Of(w.cache()).Claimant(id); by != nil && by != w.owner() {
			return worker.InitialResult(w.kind)
		}
	}
	r, _ := w.cached(id)
	return r
}

// containerLocked returns the container ID that the last tick has found, "" before the first one and
// while another task has it.
func (w *Worker) containerLocked() string {
	if w.adopted {
		return w.id
	}
	return ""
}
