package worker

import (
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// Info identifies a probe. Only Handler and Initial may change while a worker runs.
type Info struct {
	results.Subject
	Kind    probe.Kind
	Handler string
	// Initial is the state before the first decision: [probe.Spec].Initial, or Unknown if an earlier agent or
	// worker may have left a result.
	Initial probe.Result
	// PodMeta has the labels of the pod, as of when the Info was made. It is read-only, and may be nil in an Info
	// that no worker has made.
	PodMeta *probe.Pod
}

// Observer observes all probes. Its methods, and the methods of the observers that it returns, must not
// block: a probe waits for them, but no other probe does. They are called with no lock held.
type Observer interface {
	// Observe is called once for each new worker, by the goroutine that makes it, and concurrently for
	// different workers. It returns an observer of the worker's ticks. If the worker is not started,
	// because the probe exists already or the manager is closed, the returned observer is closed at once.
	Observe(Info) ProbeObserver
}

// ProbeObserver observes the ticks of one probe. Its methods are not called concurrently. All except Close
// are called by the goroutine of the tick.
type ProbeObserver interface {
	// Tick is called once after each tick that its gates allowed, unless the tick was skipped, or the probe
	// was stopped, paused or changed meanwhile. While an abandoned attempt is under way, such ticks are errors
	// without attempts. Tick must not keep t.
	Tick(t *Tick)
	// Skipped is called with the number of due ticks that did not run: before the next tick for lost ticks,
	// and at the end of a tick that cannot be counted.
	Skipped(reason SkipReason, ticks int)
	// Close is called once, after the worker has ended, by the goroutine that stopped it or the goroutine
	// of the last tick. No other method is called after it.
	Close()
}

// GateObserver is a [ProbeObserver] that also observes why its probe makes no attempts.
type GateObserver interface {
	ProbeObserver
	// Gated is called after a tick that found another gate than the previous tick. [Open] means that
	// attempts are made; it is the gate before the first call. Gated is not called concurrently with the
	// other methods.
	Gated(gate Gate)
}

// DecisionObserver is a [ProbeObserver] that also observes decided results that no attempt has led to.
// [Tick].After has the others.
type DecisionObserver interface {
	ProbeObserver
	// Decided is called with the decided result of a new container, and of a container that is not running
	// or is being deleted. If an earlier agent or worker has left a result, Decided is first called with it,
	// by the goroutine that makes the worker. Before the first call the result is [InitialResult]. Decided is
	// not called concurrently with the other methods, and may be called again with the same result.
	Decided(result results.Result)
}

// SkipReason is the reason why a due tick did not run. It is a value of a metric label.
type SkipReason string

const (
	// SkipBusy: the previous tick was still under way.
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
