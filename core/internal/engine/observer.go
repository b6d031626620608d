package engine

import (
	"sync"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

// observers are the observers of one probe: none, one or two, the second of which may be more
// than one itself.
type observers struct{ first, second worker.ProbeObserver }

// several are observers in the place of one.
type several struct {
	worker.ProbeObserver // nil: each of the others is called
	observers
	owner Owner // of the worker, where several are the first
}

// add adds an observer, unless it is nil.
func (o *observers) add(next worker.ProbeObserver) {
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
func (o *observers) addFirst(first worker.ProbeObserver, owner Owner) {
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
func (w *Worker) tell(f func(worker.ProbeObserver)) { w.tellAll(&w.observer, f) }

func (w *Worker) tellAll(o *observers, f func(worker.ProbeObserver)) {
	defer w.tellOne(o.second, f) // deferred: also when the first one ends the goroutine
	w.tellOne(o.first, f)
}

func (w *Worker) tellOne(o worker.ProbeObserver, f func(worker.ProbeObserver)) {
	switch o := o.(type) {
	case nil:
	case *several:
		w.tellAll(&o.observers, f)
	default:
		w.call(ofObserver, func() { f(o) })
	}
}

// skipped tells that ticks were skipped.
func (w *Worker) skipped(reason worker.SkipReason, ticks int) {
	w.tell(func(o worker.ProbeObserver) { o.Skipped(reason, ticks) })
}

func tellGate(o worker.ProbeObserver, gate worker.Gate) {
	if g, ok := o.(worker.GateObserver); ok {
		g.Gated(gate)
	}
}

func tellDecision(o worker.ProbeObserver, result results.Result) {
	if d, ok := o.(worker.DecisionObserver); ok {
		d.Decided(result)
	}
}

// passed tells the observers the gate of a tick, if it has changed.
func (w *Worker) passed(gate worker.Gate) {
	if gate == w.gate {
		return
	}
	w.gate = gate
	w.tell(func(o worker.ProbeObserver) { tellGate(o, gate) })
}

// causeOf returns why the counted result was decided. A success has no reason.
func causeOf(t *worker.Tick) results.Cause {
	switch {
	case t.Err != nil:
		return results.Cause{Reason: results.Reason(probe.ReasonOf(t.Err)), Output: t.Err.Error()}
	case t.Result == results.Success:
		return results.Cause{Output: t.Outcome.Output}
	default:
		return results.Cause{Reason: results.Reason(t.Outcome.Reason), Output: t.Outcome.Output}
	}
}

// The most that is kept of the trace of a tick.
const (
	maxEvents    = 64
	maxTraceText = 4 << 10 // bytes, of names and details
)

// tracing makes the traces of the ticks of a runner. What a handler emits after its attempt has ended, in a
// goroutine that it has started, is not kept: it would be in the trace of another probe.
type tracing struct {
	worker.Trace
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
