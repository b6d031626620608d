package worker

import (
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// Info identifies a probe. Only Handler may change during the life of a worker.
type Info struct {
	results.Subject
	Kind    probe.Kind
	Handler string
}

// Observer observes all probes. Its methods, and those of the observers that it returns, must
// not block: a probe waits for them, and no other probe does. They are called with no lock held.
type Observer interface {
	// Observe is called once for each worker that is made, by the goroutine that makes it, and
	// concurrently for different workers. It returns an observer of the ticks. That is closed at
	// once when the worker is not started, because the probe exists already or the manager is
	// closed.
	Observe(Info) ProbeObserver
}

// ProbeObserver observes the ticks of one probe. Its methods are not called concurrently, and but
// for Close by the goroutine of the tick.
type ProbeObserver interface {
	// Tick is called once after each tick that made an attempt, unless the probe was stopped,
	// paused or changed meanwhile. It must not keep t.
	Tick(t *Tick)
	// Skipped is called when due ticks were not run, with their number: before the next tick
	// for those that were lost, and at the end of a tick that cannot be counted.
	Skipped(reason SkipReason, ticks int)
	// Close is called once, when the worker has ended: by the goroutine that stopped it, or by
	// that of the tick that was under way. No other method is called after it.
	Close()
}

// GateObserver is a [ProbeObserver] that is told why its probe makes no attempts.
type GateObserver interface {
	ProbeObserver
	// Gated is called after a tick that found another gate than the tick before. [Open] means
	// that attempts are made, and is not told before the first other gate. Gated is not called
	// concurrently with the other methods.
	Gated(gate Gate)
}

// observers are the observers of one probe: none, one or two, the second of which may be more
// than one itself.
type observers struct{ first, second ProbeObserver }

var _ GateObserver = (*observers)(nil)

// add adds an observer, unless it is nil.
func (o *observers) add(next ProbeObserver) {
	switch {
	case next == nil:
	case o.first == nil:
		o.first = next
	case o.second == nil:
		o.second = next
	default:
		o.second = &observers{o.second, next}
	}
}

// owned is an observer with an owner that is another object, or none.
type owned struct {
	observers
	owner Owner
}

// addFirst adds the observer of one probe. owner returns owner from now on.
func (o *observers) addFirst(first ProbeObserver, owner Owner) {
	if same, _ := first.(Owner); first != nil && same == owner {
		o.add(first)
	} else {
		o.add(&owned{observers{first: first}, owner})
	}
}

// owner returns the owner of a worker; nil if it has none.
func (o *observers) owner() Owner {
	if first, ok := o.first.(*owned); ok {
		return first.owner
	}
	owner, _ := o.first.(Owner)
	return owner
}

// Tick implements [ProbeObserver].
func (o *observers) Tick(t *Tick) {
	if o.first != nil {
		o.first.Tick(t)
	}
	if o.second != nil {
		o.second.Tick(t)
	}
}

// Skipped implements [ProbeObserver].
func (o *observers) Skipped(reason SkipReason, ticks int) {
	if o.first != nil {
		o.first.Skipped(reason, ticks)
	}
	if o.second != nil {
		o.second.Skipped(reason, ticks)
	}
}

// Gated implements [GateObserver].
func (o *observers) Gated(gate Gate) {
	tellGate(o.first, gate)
	tellGate(o.second, gate)
}

// Close implements [ProbeObserver].
func (o *observers) Close() {
	if o.first != nil {
		o.first.Close()
	}
	if o.second != nil {
		o.second.Close()
	}
}

func tellGate(o ProbeObserver, gate Gate) {
	if g, ok := o.(GateObserver); ok {
		g.Gated(gate)
	}
}

// passed tells the observers the gate of a tick, if it has changed.
func (w *Worker) passed(gate Gate) {
	if gate == w.gate {
		return
	}
	w.gate = gate
	w.observer.Gated(gate)
}

// SkipReason is why a due tick was not run. It is a value of a metric label.
type SkipReason string

const (
	// SkipBusy: the tick before it was still under way.
	SkipBusy SkipReason = "busy"
	// SkipNoSlot: the handler had no free instance, process or slot.
	SkipNoSlot SkipReason = "no_slot"
	// SkipQuarantine: the handler has put the probe in quarantine.
	SkipQuarantine SkipReason = "quarantine"
	// SkipPanic: the handler panicked.
	SkipPanic SkipReason = "panic"
)

// Tick is one run of a probe with at least one attempt.
type Tick struct {
	Due         time.Time // when it should have begun
	Start       time.Time // when it did
	End         time.Time
	Deferred    time.Duration // of that, attempts waited for a slot; see [probe.Suspender]
	ContainerID string
	Handler     string // that made the attempts
	Attempts    int
	Outcome     probe.Outcome  // of the last attempt
	Err         error          // of the last attempt: no verdict was reached
	Counted     bool           // whether the thresholds counted it
	Result      results.Result // what they counted it as
	Run         int            // consecutive equal results, with this one
	Threshold   int            // the Run that makes Result the decided result
	Before      results.Result // decided result before the tick
	After       results.Result // and after it
	OnHold      bool           // no probing until the container ID changes
	Next        time.Time      // the next due time
	// Quarantined is the end of the quarantine of the probe; zero without one.
	Quarantined time.Time
}

// Duration returns how long the attempts took, without the time that they were deferred.
func (t *Tick) Duration() time.Duration { return t.End.Sub(t.Start) - t.Deferred }

// Changed reports whether the tick changed the decided result.
func (t *Tick) Changed() bool { return t.Before != t.After }

// cause returns why the counted result was decided. A success has no reason.
func (t *Tick) cause() results.Cause {
	switch {
	case t.Err != nil:
		return results.Cause{Reason: results.Reason(probe.ReasonOf(t.Err)), Output: t.Err.Error()}
	case t.Result == results.Success:
		return results.Cause{Output: t.Outcome.Output}
	default:
		return results.Cause{Reason: results.Reason(t.Outcome.Reason), Output: t.Outcome.Output}
	}
}

// EventReason is the reason of a kubelet event.
type EventReason string

// The reasons of a worker's events, the kubelet's first.
const (
	Unhealthy    EventReason = "Unhealthy"
	ProbeWarning EventReason = "ProbeWarning"
	// ProbeQuarantined is not an event of the kubelet.
	ProbeQuarantined EventReason = "ProbeQuarantined"
)
