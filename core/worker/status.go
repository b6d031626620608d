package worker

import (
	"fmt"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// Status is the state of a probe.
type Status struct {
	Info        Info
	Target      string // what an attempt would probe now, for people, on one line
	Spec        probe.Spec
	ContainerID string
	Decided     results.Result
	Run         int
	OnHold      bool
	Paused      bool
	Next        time.Time // zero while paused
	// Window is how long after Next the tick may come; 0 with [probe.CompatExactTimer], and for periods of a few
	// milliseconds.
	Window time.Duration
	// Gate says what keeps the probe from making attempts, for people: "initial delay, 4s
	// left". It begins with the text of a [Gate]; "" if attempts are made.
	Gate string
	// Quarantine is the end and the reason of a quarantine of the probe by its handler, and
	// QuarantinedSince its beginning; "" and zero without one.
	Quarantine       string
	QuarantinedSince time.Time
}

// InitialResult returns the decided result of a container before its first probe: it is live,
// it is not ready, and whether it has started is not known.
func InitialResult(kind probe.Kind) results.Result {
	switch kind {
	case probe.Liveness:
		return results.Success
	case probe.Readiness:
		return results.Failure
	default:
		return results.Unknown
	}
}

// InUseError is the error for a probe of a task whose ContainerID another task has. Results are kept by container ID, so that two tasks with
// one would have each other's.
type InUseError struct {
	ContainerID string
	By          results.Subject // of the other task
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("container ID %q is in use by %s", e.ContainerID, explain.Task(e.By.Namespace, e.By.Pod, e.By.Container))
}
