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

// lasts reports whether g stays closed until the task has another state, or a method of the worker
// is called: until then the worker need not tick.
func lasts(g worker.Gate) bool {
	switch g {
	case worker.NoStatus, worker.NoContainer, worker.OnHold, worker.NotRunning, worker.NotStarted, worker.Started, worker.Paused:
		return true
	default:
		return false
	}
}

// gateLocked returns the gate that a tick at now would find closed in state s.
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
	case w.paused:
		return worker.Paused
	case w.left:
		return worker.UnderWay
	default:
		return worker.Open
	}
}

// delayLeftLocked returns how much of the initial delay is left. The age of the container does not depend
// on what happens to the wall clock, and is not negative. In the kubelet it is the difference of two
// times of that clock, in whole seconds.
func (w *Worker) delayLeftLocked(now time.Time, s *worker.State) time.Duration {
	delay := min(w.setup.spec.Value().InitialDelay, longest)
	if !w.shared.Compat.Has(probe.CompatWallClock) {
		if delay <= 0 {
			return 0
		}
		return delay - seam.Of(w.task.Load()).Age(now)
	}
	age := max(now.Sub(s.StartedAt), -longest)
	if delay%time.Second == 0 {
		age = age.Truncate(time.Second)
	}
	return delay - age
}

// longestWait is how long a probe waits for its first attempt at most, once nothing keeps it from that.
const longestWait = 10 * time.Second

// firstLocked reports whether the next attempt is the first one for the container.
func (w *Worker) firstLocked() bool {
	return !w.shared.Compat.Has(probe.CompatLateStart) && (!w.probed || seam.Of(w.task.Load()).Known().ContainerID != w.id)
}

// delayEndsLocked makes w due at the end of the initial delay, if that comes before the next multiple of
// the period.
func (w *Worker) delayEndsLocked(s *worker.State) {
	now := time.Now()
	end := w.shared.schedule.since(now) + int64(max(w.delayLeftLocked(now, s), 0))
	if end < w.due && (w.shared.ContainerScoped || !w.shared.Compat.Has(probe.CompatLateStart)) {
		w.due, w.step, w.phase = end, w.setup.period(), 0
	}
}

// enterLocked returns the gate that keeps this tick from making attempts, [worker.Open] without one. It
// sets the results that need no attempt: those of a new container, of one that does not run, and of
// liveness and startup while the pod is being deleted. more reports whether the worker is to be
// scheduled again.
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

// gateTextLocked returns what keeps w from making attempts now, for people.
func (w *Worker) gateTextLocked(now time.Time, s *worker.State) string {
	gate := w.gateLocked(now, s)
	var other *owner
	if s.ContainerID != w.id {
		other = w.shared.claimant(s.ContainerID, w.owner())
	}
	switch {
	case gate == worker.NoStatus || gate == worker.PodEnded || gate == worker.NoContainer:
		return gate.String()
	case other != nil:
		return fmt.Sprintf("%s by %s", worker.InUse, explain.Task(other.Subject.Namespace, other.Subject.Pod, other.Subject.Container))
	case gate == worker.InitialDelay:
		return fmt.Sprintf("%s, %v left", gate, shortly(w.delayLeftLocked(now, s)))
	case gate == worker.UnderWay, gate == worker.Open && w.underWayLocked(now) > 0:
		return fmt.Sprintf("%s for %v", worker.UnderWay, shortly(w.underWayLocked(now)))
	case gate == worker.Open && w.quarantine != nil:
		return fmt.Sprintf("%s until %s", worker.Quarantined, w.quarantine.until.UTC().Format(time.RFC3339))
	default:
		return gate.String()
	}
}

// shortly returns d for people, rounded but not to 0.
func shortly(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(time.Second)
	}
	return explain.Round(max(d, time.Microsecond))
}
