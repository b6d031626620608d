package engine

import (
	"sync"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/handshake"
	"github.com/daeace23/prober/probe"
)

// observers holds the observers of one probe. first and second may be nil, and each may be a
// [multiObserver].
type observers struct{ first, second worker.ProbeObserver }

// multiObserver holds several observers in one slot of [observers].
type multiObserver struct {
	worker.ProbeObserver // nil: the embedded observers are called instead
	observers
	owner Owner // owner of the worker, in first only
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
		o.second = &multiObserver{observers: observers{o.second, next}}
	}
}

// addFirst adds the first observer of a probe, and sets its owner.
func (o *observers) addFirst(first worker.ProbeObserver, owner Owner) {
	if same, _ := first.(Owner); first != nil && same == owner {
		o.add(first)
	} else {
		o.add(&multiObserver{observers: observers{first: first}, owner: owner})
	}
}

// owner returns the owner of the worker; nil if it has none.
func (o *observers) owner() Owner {
	if first, ok := o.first.(*multiObserver); ok {
		return first.owner
	}
	owner, _ := o.first.(Owner)
	return owner
}

// watcher returns the first observer that watches TLS handshakes; nil if there is none.
func (o *observers) watcher() handshake.Watcher {
	if o == nil {
		return nil
	}
	for _, one := range [...]worker.ProbeObserver{o.first, o.second} {
		if several, ok := one.(*multiObserver); ok {
			if w := several.observers.watcher(); w != nil {
				return w
			}
		} else if w, ok := one.(handshake.Watcher); ok {
			return w
		}
	}
	return nil
}

// notify calls f with each observer. A panic in one call does not affect the others.
func (w *Worker) notify(f func(worker.ProbeObserver)) { w.notifyAll(&w.observer, f) }

func (w *Worker) notifyAll(o *observers, f func(worker.ProbeObserver)) {
	defer w.notifyOne(o.second, f) // deferred: runs even if the first call ends the goroutine
	w.notifyOne(o.first, f)
}

func (w *Worker) notifyOne(o worker.ProbeObserver, f func(worker.ProbeObserver)) {
	switch o := o.(type) {
	case nil:
	case *multiObserver:
		w.notifyAll(&o.observers, f)
	default:
		w.call(observerCallback, func() { f(o) })
	}
}

// skipped notifies the observers of skipped ticks.
func (w *Worker) skipped(reason worker.SkipReason, ticks int) {
	w.notify(func(o worker.ProbeObserver) { o.Skipped(reason, ticks) })
}

func notifyGate(o worker.ProbeObserver, gate worker.Gate) {
	if g, ok := o.(worker.GateObserver); ok {
		g.Gated(gate)
	}
}

func notifyDecision(o worker.ProbeObserver, result results.Result) {
	if d, ok := o.(worker.DecisionObserver); ok {
		d.Decided(result)
	}
}

// reportGate notifies the observers of the gate of a tick, if it has changed.
func (w *Worker) reportGate(gate worker.Gate) {
	if gate == w.gate {
		return
	}
	w.gate = gate
	w.notify(func(o worker.ProbeObserver) { notifyGate(o, gate) })
}

// causeOf returns the cause of the result that t counted. A success has no reason.
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

// Limits of the trace of a tick.
const (
	maxEvents    = 64
	maxTraceText = 4 << 10 // bytes, of names and details
)

// tracing records the traces of the ticks of a runner. It drops events that a handler emits after its
// attempt has ended, from a goroutine of its own: they would appear in the trace of another probe.
type tracing struct {
	worker.Trace
	tracer probe.Tracer // add as a func value, made once

	mu   sync.Mutex // held to change the fields below and Trace; observers read Trace while open is false
	open bool       // attempts are under way
	text int        // bytes
}

// begin opens the trace, and returns the tracer for the attempts of a tick.
func (t *tracing) begin() probe.Tracer {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = true
	if t.tracer == nil {
		t.tracer = t.add
	}
	return t.tracer
}

// end closes the trace of a tick. The trace is empty if the tick made no attempt.
func (t *tracing) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = false
}

// reset removes the events, and so the references to strings of the handler.
func (t *tracing) reset() {
	clear(t.Events)
	t.Events, t.Dropped, t.text = t.Events[:0], 0, 0
}

// add is the tracer. It keeps the first events up to the limits. It keeps retries and waits at the deadline
// beyond the limits, up to twice as many events.
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
