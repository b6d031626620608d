package worker

import (
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// Tick is one run of a probe with at least one attempt.
type Tick struct {
	Due         time.Time // when it should have begun
	Start       time.Time // when it did
	End         time.Time
	Deferred    time.Duration // of that, attempts waited for a slot; see [probe.SuspendTimeout]
	ContainerID string
	Handler     string // that made the attempts
	Attempts    int
	Outcome     probe.Outcome  // of the last attempt
	Err         error          // of the last attempt: no verdict was reached
	Counted     bool           // whether the thresholds counted it
	Result      results.Result // what they counted it as
	Run         int            // consecutive equal results, with this one
	RunBefore   int            // and without it
	Threshold   int            // the Run that makes Result the decided result
	Before      results.Result // decided result before the tick
	After       results.Result // and after it
	First       bool           // After is a Failure that attempts have decided, and Before the initial Failure of a readiness probe
	OnHold      bool           // no probing until the container ID changes
	Next        time.Time      // the next due time
	// Quarantined is the end of the quarantine of the probe; zero without one.
	Quarantined time.Time
	// Trace is what happened inside the attempts, of a group or a manager with a history. It must not be kept.
	Trace *Trace
}

// Duration returns how long the attempts took, without the time that they were deferred.
func (t *Tick) Duration() time.Duration { return t.End.Sub(t.Start) - t.Deferred }

// Changed reports whether the tick changed the decided result, or decided the first Failure of a container that was
// not ready from the start.
func (t *Tick) Changed() bool { return t.Before != t.After || t.First }

// Trace is what happened inside the attempts of a tick, in order. A [probe.TraceRetry] begins each
// attempt but the first.
type Trace struct {
	// Events are at most 64, with at most 4 KiB of text. It must not be kept.
	Events  []probe.TraceEvent
	Dropped int // events that are not kept
}
