package worker

import (
	"sync"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/internal/clip"
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

// observers are the observers of one probe: none, one or two, the second of which may be more
// than one itself.
type observers struct{ first, second ProbeObserver }

// several are observers in the place of one.
type several struct {
	ProbeObserver // nil: each of the others is called
	observers
	owner Owner // of the worker, where several are the first
}

// add adds an observer, unless it is nil.
func (o *observers) add(next ProbeObserver) {
	switch {
	case next == nil:
	case o.first == nil:
		o.first = next
	case o.second == nil:
		o.second = next
	default:
		o.second = &several{observers: observers{o.second, next}}
	}
}

// addFirst adds the observer of one probe. owner returns owner from now on.
func (o *observers) addFirst(first ProbeObserver, owner Owner) {
	if same, _ := first.(Owner); first != nil && same == owner {
		o.add(first)
	} else {
		o.add(&several{observers: observers{first: first}, owner: owner})
	}
}

// owner returns the owner of a worker; nil if it has none.
func (o *observers) owner() Owner {
	if first, ok := o.first.(*several); ok {
		return first.owner
	}
	owner, _ := o.first.(Owner)
	return owner
}

// tell calls f with each observer. A panic of one is not the others' fault.
func (w *Worker) tell(f func(ProbeObserver)) { w.tellAll(&w.observer, f) }

func (w *Worker) tellAll(o *observers, f func(ProbeObserver)) {
	defer w.tellOne(o.second, f) // deferred: also when the first one ends the goroutine
	w.tellOne(o.first, f)
}

func (w *Worker) tellOne(o ProbeObserver, f func(ProbeObserver)) {
	switch o := o.(type) {
	case nil:
	case *several:
		w.tellAll(&o.observers, f)
	default:
		w.call(ofObserver, func() { f(o) })
	}
}

// skipped tells that ticks were skipped.
func (w *Worker) skipped(reason SkipReason, ticks int) {
	w.tell(func(o ProbeObserver) { o.Skipped(reason, ticks) })
}

func tellGate(o ProbeObserver, gate Gate) {
	if g, ok := o.(GateObserver); ok {
		g.Gated(gate)
	}
}

func tellDecision(o ProbeObserver, result results.Result) {
	if d, ok := o.(DecisionObserver); ok {
		d.Decided(result)
	}
}

// passed tells the observers the gate of a tick, if it has changed.
func (w *Worker) passed(gate Gate) {
	if gate == w.gate {
		return
	}
	w.gate = gate
	w.tell(func(o ProbeObserver) { tellGate(o, gate) })
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
	RunBefore   int            // and without it
	Threshold   int            // the Run that makes Result the decided result
	Before      results.Result // decided result before the tick
	After       results.Result // and after it
	OnHold      bool           // no probing until the container ID changes
	Next        time.Time      // the next due time
	// Quarantined is the end of the quarantine of the probe; zero without one.
	Quarantined time.Time
	// Trace is what happened inside the attempts, if [Shared].Trace is set. It must not be kept.
	Trace *Trace
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

// The most that is kept of the trace of a tick.
const (
	maxEvents    = 64
	maxTraceText = 4 << 10 // bytes, of names and details
)

// Trace is what happened inside the attempts of a tick, in order. A [probe.TraceRetry] begins each
// attempt but the first.
type Trace struct {
	// Events are at most 64, with at most 4 KiB of text. It must not be kept.
	Events  []probe.TraceEvent
	Dropped int // events that are not kept
}

// tracing makes the traces of the ticks of a runner. What a handler emits after its attempt has ended, in a
// goroutine that it has started, is not kept: it would be in the trace of another probe.
type tracing struct {
	Trace
	tracer probe.Tracer // is made once

	mu   sync.Mutex // held to change what follows and Trace; observers read Trace when it is not open
	open bool       // there are attempts
	text int        // bytes
}

// begin returns the tracer of the attempts of a tick.
func (t *tracing) begin() probe.Tracer {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = true
	if t.tracer == nil {
		t.tracer = t.add
	}
	return t.tracer
}

// end ends the trace of a tick. It is empty if that has made no attempt.
func (t *tracing) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = false
}

// reset forgets the tick, and the texts of its handler.
func (t *tracing) reset() {
	clear(t.Events)
	t.Events, t.Dropped, t.text = t.Events[:0], 0, 0
}

// add is the tracer. What comes first is kept, and always the begin of an attempt and what it was
// waiting for at its deadline.
func (t *tracing) add(e probe.TraceEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open {
		return
	}
	matters := e.Type == probe.TraceRetry || e.Type == probe.TraceWait
	room := maxTraceText - t.text
	if matters {
		room = max(room, maxTraceText/8)
	}
	if !matters && len(t.Events) >= maxEvents || len(e.Name) >= room || len(t.Events) >= 2*maxEvents {
		t.Dropped++
		return
	}
	e.Detail = clip.Bytes(e.Detail, room-len(e.Name))
	t.text += len(e.Name) + len(e.Detail)
	t.Events = append(t.Events, e)
}
