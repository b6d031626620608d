package worker

import (
	"fmt"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// Gate is why the ticks of a probe make no attempts.
type Gate uint8

// The gates, in the order in which a tick checks them. It is that of the kubelet's doProbe.
const (
	Open         Gate = iota // ticks make attempts
	NoStatus                 // the pod has no status
	PodEnded                 // the worker ends
	NoContainer              // the status has no container ID yet
	OnHold                   // until the container ID changes
	NotRunning               // the worker ends if the state is final
	Terminating              // no liveness and startup probes; the worker ends
	InitialDelay             // from the start of the container
	NotStarted               // the startup probe has not succeeded
	Started                  // the startup probe has succeeded
	Paused
	Quarantined // the handler makes no attempts for some time
	InUse       // another task has the container ID; before the others, but those without an ID
	UnderWay    // the handler of an attempt does not heed its deadline; each tick is an error
)

var gateNames = [...]string{
	Open: "", NoStatus: "no status", PodEnded: "pod ended", NoContainer: "no container", OnHold: "on hold",
	NotRunning: "container not running", Terminating: "terminating", InitialDelay: "initial delay",
	NotStarted: "not started", Started: "started", Paused: "paused", Quarantined: "quarantined",
	InUse: "container ID in use", UnderWay: "attempt under way",
}

// Gates returns all gates but [Open].
func Gates() (all []Gate) {
	for g := range gateNames[1:] {
		all = append(all, Gate(g+1))
	}
	return all
}

// String returns the gate for people, "" for [Open].
func (g Gate) String() string {
	if int(g) < len(gateNames) {
		return gateNames[g]
	}
	return fmt.Sprintf("Gate(%d)", uint8(g))
}

// lasts reports whether g stays closed until the task has another state, or a method of the worker
// is called: until then the worker need not tick.
func (g Gate) lasts() bool {
	switch g {
	case NoStatus, NoContainer, OnHold, NotRunning, NotStarted, Started, Paused:
		return true
	default:
		return false
	}
}

// gateLocked returns the gate that a tick at now would find closed in state s.
func (w *Worker) gateLocked(now time.Time, s *State) Gate {
	switch {
	case !s.Found:
		return NoStatus
	case s.PodEnded:
		return PodEnded
	case s.ContainerID == "":
		return NoContainer
	case w.run.hold && s.ContainerID == w.id: // a new container ends the hold
		return OnHold
	case !s.Running:
		return NotRunning
	case s.Deleting && w.kind != probe.Readiness:
		return Terminating
	case w.delayLeftLocked(now, s) > 0:
		return InitialDelay
	case s.Started && w.kind == probe.Startup:
		return Started
	case !s.Started && w.kind != probe.Startup:
		return NotStarted
	case w.paused:
		return Paused
	case w.left:
		return UnderWay
	default:
		return Open
	}
}

// delayLeftLocked returns how much of the initial delay is left. The age of the container does not depend
// on what happens to the wall clock, and is not negative. In the kubelet it is the difference of two
// times of that clock, in whole seconds.
func (w *Worker) delayLeftLocked(now time.Time, s *State) time.Duration {
	delay := min(w.setup.spec.Value().InitialDelay, longest)
	if !w.shared.Compat.Has(probe.CompatWallClock) {
		if delay <= 0 {
			return 0
		}
		return delay - w.task.Load().age(now)
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
	return !w.shared.Compat.Has(probe.CompatLateStart) && (!w.probed || w.task.Load().known().ContainerID != w.id)
}

// delayEndsLocked makes w due at the end of the initial delay, if that comes before the next multiple of
// the period. It returns when w is due.
func (w *Worker) delayEndsLocked(s *State) (due int64) {
	now := time.Now()
	end := w.shared.schedule.since(now) + int64(max(w.delayLeftLocked(now, s), 0))
	if end < w.due && !w.shared.Compat.Has(probe.CompatLateStart) {
		w.due, w.step, w.phase = end, w.setup.period(), 0
	}
	return w.due
}

// enterLocked returns the gate that keeps this tick from making attempts, [Open] without one. It
// sets the results that need no attempt: those of a new container, of one that does not run, and of
// liveness and startup while the pod is being deleted. more reports whether the worker is to be
// scheduled again.
func (w *Worker) enterLocked(now time.Time, s *State) (gate Gate, more bool) {
	gate = w.gateLocked(now, s)
	switch gate {
	case NoStatus, NoContainer:
		return gate, true
	case PodEnded:
		return gate, false
	}
	if (s.ContainerID != w.id || !w.adopted) && !w.adoptLocked(s) {
		return InUse, gate != Terminating && !(gate == NotRunning && s.Final)
	}
	switch gate {
	case NotRunning:
		w.decideLocked(results.Failure, results.Cause{Reason: results.NotRunning})
		return gate, !s.Final
	case Terminating:
		w.decideLocked(results.Success, results.Cause{Reason: results.Terminating}) // no restarts during the shutdown
		return gate, false
	}
	return gate, true
}

// gateTextLocked returns what keeps w from making attempts now, for people.
func (w *Worker) gateTextLocked(now time.Time, s *State) string {
	gate := w.gateLocked(now, s)
	var other *results.Subject
	if s.ContainerID != w.id {
		other = w.shared.claimant(s.ContainerID, w.task.Load().subject())
	}
	switch {
	case gate == NoStatus || gate == PodEnded || gate == NoContainer:
		return gate.String()
	case other != nil:
		return fmt.Sprintf("%s by %s", InUse, taskName(other))
	case gate == InitialDelay:
		return fmt.Sprintf("%s, %v left", gate, shortly(w.delayLeftLocked(now, s)))
	case gate == UnderWay, gate == Open && w.underWayLocked(now) > 0:
		return fmt.Sprintf("%s for %v", UnderWay, shortly(w.underWayLocked(now)))
	case gate == Open && w.quarantine != nil:
		return fmt.Sprintf("%s until %s", Quarantined, w.quarantine.until.UTC().Format(time.RFC3339))
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
