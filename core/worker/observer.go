package worker

import (
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// Info names a probe. Only its handler may change while its worker lives.
type Info struct {
	results.Subject
	Kind    probe.Kind
	Handler string
}

// Observer is told of every probe, so that it can prepare what belongs to it.
// Its methods, and those of what it returns, must not block: they are called
// between a probe's ticks. No lock is held meanwhile.
type Observer interface {
	// Observe is called when a worker is made; the [ProbeObserver] is told of that
	// worker's ticks only. A worker that is not started after all, because the probe
	// exists already or the manager is closed, is closed at once.
	Observe(Info) ProbeObserver
}

// ProbeObserver is told of one probe's ticks, one after the other.
type ProbeObserver interface {
	// Tick is called after each tick that made an attempt. It must not keep t.
	Tick(t *Tick)
	// Skipped is called when due ticks were not run.
	Skipped(reason SkipReason, ticks int)
	// Close is called once, when the worker has ended; nothing follows it.
	Close()
}

// SkipReason says why a due tick was not run. It is fit for a metric label.
type SkipReason string

const (
	// SkipBusy: the tick before it was still under way.
	SkipBusy SkipReason = "busy"
	// SkipNoSlot: the handler had no free instance, process or slot.
	SkipNoSlot SkipReason = "no_slot"
	// SkipQuarantine: the handler lets the probe rest, which it could not carry out.
	SkipQuarantine SkipReason = "quarantine"
	// SkipPanic: the handler panicked.
	SkipPanic SkipReason = "panic"
)

// Tick is one scheduled run that made at least one attempt.
type Tick struct {
	Due         time.Time // when it should have begun
	Start       time.Time // when it did
	End         time.Time
	ContainerID string
	Handler     string // that made the attempts
	Attempts    int
	Outcome     probe.Outcome  // of the last attempt
	Err         error          // of the last attempt: no verdict was reached
	Counted     bool           // whether the thresholds counted it
	Result      results.Result // what they counted it as
	Run         int            // equal results running, this one included
	Threshold   int            // how many of them decide
	Before      results.Result // decided result before the tick
	After       results.Result // and after it
	OnHold      bool           // no more probing until a new container ID
	Next        time.Time      // the next due time
	// Quarantined is until when the handler lets the probe rest after this tick; zero
	// where it does not.
	Quarantined time.Time
}

// Changed reports whether the tick changed the decided result.
func (t *Tick) Changed() bool { return t.Before != t.After }

// reason returns why the tick counted as it did, "" for a success.
func (t *Tick) reason() results.Reason {
	switch {
	case t.Result == results.Success:
		return ""
	case t.Err != nil:
		return results.Reason(probe.ReasonOf(t.Err))
	default:
		return results.Reason(t.Outcome.Reason)
	}
}

// EventReason is the reason of a kubelet event.
type EventReason string

// The reasons of a worker's events, the kubelet's first.
const (
	Unhealthy    EventReason = "Unhealthy"
	ProbeWarning EventReason = "ProbeWarning"
	// ProbeQuarantined is ours: the kubelet knows no quarantine.
	ProbeQuarantined EventReason = "ProbeQuarantined"
)
