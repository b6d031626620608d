package worker

import (
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// Tick is one run of a probe that its gates allow. It has at least one attempt, except while the handler of
// an earlier, abandoned attempt does not return: then Attempts is 0, and Err is set.
type Tick struct {
	Due         time.Time // when it should have begun
	Start       time.Time // when it did
	End         time.Time
	Deferred    time.Duration // part of the duration in which attempts waited for a slot; see [probe.SuspendTimeout]
	ContainerID string
	Handler     string         // name of the handler
	Attempts    int            // 0 while an abandoned attempt is under way
	Outcome     probe.Outcome  // of the last attempt
	Err         error          // error of the last attempt: no verdict was reached
	Counted     bool           // the thresholds counted the tick
	Result      results.Result // the counted result
	Run         int            // length of the run of equal results after the tick; it includes Result if Counted is set
	RunBefore   int            // length of the run before the tick, which may be a run of the other result
	Threshold   int            // length of the run that makes Result the decided result
	Before      results.Result // decided result before the tick
	After       results.Result // decided result after the tick
	First       bool           // the first Failure by attempts of a container that began as not ready; Before is Failure too
	OnHold      bool           // no probing until the container ID changes
	Next        time.Time      // the next due time
	// Quarantined is the end of the quarantine of the probe; zero without one.
	Quarantined time.Time
	// Trace has the events of the attempts, in a group or a manager with a history. It must not be kept.
	Trace *Trace
}

// Duration returns how long the attempts took, without the time in which they were deferred.
func (t *Tick) Duration() time.Duration { return t.End.Sub(t.Start) - t.Deferred }

// Changed reports whether the tick changed the decided result, or decided the first Failure of a container
// that was not ready from the start.
func (t *Tick) Changed() bool { return t.Before != t.After || t.First }

// Trace has the events of the attempts of a tick, in order. A [probe.TraceRetry] begins each attempt except
// the first.
type Trace struct {
	// Events has at most 64 events, with at most 4 KiB of text. It must not be kept.
	Events  []probe.TraceEvent
	Dropped int // number of events that were dropped
}
