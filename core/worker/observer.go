package worker

import (
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

// DecisionObserver is a [ProbeObserver] that is told of decided results which no attempt has led to.
// [Tick].After has the others.
type DecisionObserver interface {
	ProbeObserver
	// Decided is called with the decided result of another container than before, and of one that
	// does not run or is being deleted. Before the first call it is [InitialResult]. Decided is not
	// called concurrently with the other methods, and may be called again with the same result.
	Decided(result results.Result)
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
	// SkipPanic: the [Source] of the task panicked, or with [probe.CompatPanicSkips] the handler.
	SkipPanic SkipReason = "panic"
)

// EventReason is the reason of a kubelet event.
type EventReason string

// The reasons of a worker's events, the kubelet's first.
const (
	Unhealthy    EventReason = "Unhealthy"
	ProbeWarning EventReason = "ProbeWarning"
	// ProbeQuarantined is not an event of the kubelet.
	ProbeQuarantined EventReason = "ProbeQuarantined"
)
