package probe

import "time"

// Tracer receives what happens inside one attempt, in order. It is called on the
// goroutine of the attempt, before that has ended, and must not block. An event after that is dropped, or
// is in the trace of another attempt that is under way.
type Tracer func(TraceEvent)

// TraceEvent is one event inside an attempt.
type TraceEvent struct {
	Type     TraceType
	Name     string        // the phase ("dns", "connect", "tls", "first byte", "headers", "body"), call, or log level
	Detail   string        // for people; secrets are redacted
	Duration time.Duration // how long it took; 0 for a log line
}

// TraceType is the type of a [TraceEvent].
type TraceType string

// The types of trace events.
const (
	TracePhase  TraceType = "phase"
	TraceCall   TraceType = "call"
	TraceLog    TraceType = "log"
	TraceDenied TraceType = "denied"
	// TraceWait is what the attempt was waiting for at its deadline: Name is the call,
	// Duration how long it had waited, Detail where and what the peer had done.
	TraceWait TraceType = "wait"
	// TraceRetry begins another attempt of a tick: Name is its number, Duration how long the
	// attempt before took, Detail its error. Only workers emit it.
	TraceRetry TraceType = "retry"
)

// Emit passes e to t. A nil Tracer drops it.
func (t Tracer) Emit(e TraceEvent) {
	if t != nil {
		t(e)
	}
}

// Phase reports to t that a phase which began at start has ended now.
func (t Tracer) Phase(name, detail string, start time.Time) {
	if t != nil {
		t(TraceEvent{Type: TracePhase, Name: name, Detail: detail, Duration: time.Since(start)})
	}
}
