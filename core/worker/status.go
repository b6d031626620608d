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
	Target      string // target of the next attempt, on one line
	Spec        probe.Spec
	ContainerID string
	Decided     results.Result
	Run         int
	OnHold      bool
	Paused      bool
	Next        time.Time // zero while paused
	// Window is how long after Next the tick may run. It is 0 with [probe.CompatExactTimer], and for
	// periods of a few milliseconds.
	Window time.Duration
	// Gate describes why the probe makes no attempts: "initial delay, 4s left". It begins with the text of
	// a [Gate], and is "" if attempts are made.
	Gate string
	// Quarantine is the end and the reason of a quarantine by the probe's handler, and QuarantinedSince its
	// start. They are "" and zero without a quarantine.
	Quarantine       string
	QuarantinedSince time.Time
}

// InitialResult returns the decided result of a container before its first probe: Success for liveness,
// Failure for readiness, and Unknown for startup.
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

// InUseError is the error for a probe of a task whose ContainerID is claimed by another task. Results are
// kept by container ID, so two tasks with the same ID would share results.
type InUseError struct {
	ContainerID string
	By          results.Subject // the other task
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("container ID %q is in use by %s", e.ContainerID, explain.Task(e.By.Namespace, e.By.Pod, e.By.Container))
}
