package engine

import (
	"fmt"
	"time"

	"github.com/daeace23/prober/core/internal/seam"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// staysClosed reports whether only a new state of the task, or a call of a method of the worker, can open g.
// Until then the worker need not tick.
// See RATIONALE.md, "Why do some workers not tick at all?"
func staysClosed(g worker.Gate) bool {
	switch g {
	case worker.NoStatus, worker.NoContainer, worker.OnHold, worker.NotRunning, worker.ForcedUp, worker.ForcedDown, worker.Drained,
		worker.NotStarted, worker.Started, worker.Paused:
		return true
	default:
		return false
	}
}

// gateLocked returns the closed gate for a tick at now in state s, [worker.Open] if there is none.
func (w *Worker) gateLocked(now time.Time, s *worker.State) worker.Gate {
	switch {
	case !s.Found:
		return worker.NoStatus
	case s.PodEnded:
		return worker.PodEnded
	case s.ContainerID == "":
		return worker.NoContainer
	case w.run.hold && s.ContainerID == w.id: // a new container ends the hold
		return worker.OnHold
	case !s.Running:
		return worker.NotRunning
	case s.Deleting && w.kind != probe.Readiness:
		return worker.Terminating
	case w.delayLeftLocked(now, s) > 0:
		return worker.InitialDelay
	case s.Started && w.kind == probe.Startup:
		return worker.Started
	case !s.Started && w.kind != probe.Startup:
		return worker.NotStarted
	case w.paused && w.forced != worker.Open:
		return w.forced
	case w.paused:
		return worker.Paused
	case w.abandoned:
		return worker.UnderWay
	default:
		return worker.Open
	}
}

// delayLeftLocked returns the rest of the initial delay. The age of the container is measured by the
// monotonic clock and is never negative. With [probe.CompatWallClock] it is the difference of two wall
// clock times in whole seconds, as in the kubelet.
func (w *Worker) delayLeftLocked(now time.Time, s *worker.State) time.Duration {
	delay := min(w.setup.spec.Value().InitialDelay, maxDuration)
	if !w.shared.Compat.Has(probe.CompatWallClock) {
		if delay <= 0 {
			return 0
		}
		return delay - seam.Reveal(w.task.Load()).Age(now)
	}
	age := max(now.Sub(s.StartedAt), -maxDuration)
	if delay%time.Second == 0 {
		age = age.Truncate(time.Second)
	}
	return delay - age
}

// longestWait limits how long a probe waits for its first attempt after its gate has opened.
// See RATIONALE.md, "When is the first attempt, and by which clock?"
const longestWait = 10 * time.Second

// firstLocked reports whether the next attempt is the first one for the container.
func (w *Worker) firstLocked() bool {
	return !w.shared.Compat.Has(probe.CompatLateStart) && (!w.probed || seam.Reveal(w.task.Load()).Current().ContainerID != w.id)
}

// delayEndsLocked makes w due at the end of the initial delay, if it is before the next multiple of the
// period.
func (w *Worker) delayEndsLocked(s *worker.State) {
	now := time.Now()
	end := w.shared.schedule.since(now) + int64(max(w.delayLeftLocked(now, s), 0))
	if end < w.due && (w.shared.ContainerScoped || !w.shared.Compat.Has(probe.CompatLateStart)) {
		w.due, w.step, w.phase = end, w.periodLocked(), 0
	}
}

// enterLocked returns the gate that keeps this tick from making attempts, or [worker.Open]. It decides
// results that need no attempt: the initial result of a new container, the result of a container that is
// not running, and liveness and startup while the pod is being deleted. more reports whether to schedule
// the worker again.
func (w *Worker) enterLocked(now time.Time, s *worker.State) (gate worker.Gate, more bool) {
	gate = w.gateLocked(now, s)
	switch gate {
	case worker.NoStatus, worker.NoContainer:
		return gate, true
	case worker.PodEnded:
		return gate, false
	}
	if (s.ContainerID != w.id || !w.adopted) && !w.adoptLocked(s) {
		return worker.InUse, gate != worker.Terminating && !(gate == worker.NotRunning && s.Final)
	}
	switch gate {
	case worker.NotRunning:
		w.decideLocked(results.Failure, results.Cause{Reason: results.NotRunning})
		return gate, !s.Final
	case worker.Terminating:
		w.decideLocked(results.Success, results.Cause{Reason: results.Terminating}) // no restarts during the shutdown
		return gate, false
	}
	return gate, true
}

// gateTextLocked returns a description of the closed gate, "" if w makes attempts.
func (w *Worker) gateTextLocked(now time.Time, s *worker.State) string {
	gate := w.gateLocked(now, s)
	var other *claimer
	if s.ContainerID != w.id {
		other = w.shared.claimant(s.ContainerID, w.claimer())
	}
	switch {
	case gate == worker.NoStatus || gate == worker.PodEnded || gate == worker.NoContainer:
		return gate.String()
	case other != nil:
		return fmt.Sprintf("%s by %s", worker.InUse, explain.Task(other.Subject.Namespace, other.Subject.Pod, other.Subject.Container))
	case gate == worker.InitialDelay:
		return fmt.Sprintf("%s, %v left", gate, roundShown(w.delayLeftLocked(now, s)))
	case gate == worker.UnderWay, gate == worker.Open && w.underWayLocked(now) > 0:
		return fmt.Sprintf("%s for %v", worker.UnderWay, roundShown(w.underWayLocked(now)))
	case gate == worker.Open && w.quarantine != nil:
		return fmt.Sprintf("%s until %s", worker.Quarantined, w.quarantine.until.UTC().Format(time.RFC3339))
	default:
		return gate.String()
	}
}

// roundShown rounds d for messages, but not to 0.
func roundShown(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(time.Second)
	}
	return explain.Round(max(d, time.Microsecond))
}
