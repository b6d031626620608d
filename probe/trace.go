package probe

import "time"

// Tracer receives the events of one attempt, in order. It is called in the goroutine of the attempt, before
// the attempt has ended, and must not block. A later event is dropped, or appears in the trace of another
// attempt.
type Tracer func(TraceEvent)

// TraceEvent is one event of an attempt.
type TraceEvent struct {
	Type     TraceType
	Name     string        // the phase ("dns", "connect", "tls", "first byte", "headers", "body"), call, or log level
	Detail   string        // text for users; secrets are redacted
	Duration time.Duration // duration of the event; 0 for a log line
}

// TraceType is the type of a [TraceEvent].
type TraceType string

// The types of trace events.
const (
	TracePhase  TraceType = "phase"
	TraceCall   TraceType = "call"
	TraceLog    TraceType = "log"
	TraceDenied TraceType = "denied"
	// TraceWait is the call in which the attempt was waiting at its deadline. Name is the call, Duration
	// the time it had waited, and Detail the peer's address and last action.
	TraceWait TraceType = "wait"
	// TraceRetry begins another attempt of a tick. Name is its number, Duration the duration of the
	// previous attempt, and Detail its error. Only workers emit it.
	TraceRetry TraceType = "retry"
)

// Emit passes e to t. A nil Tracer drops it.
func (t Tracer) Emit(e TraceEvent) {
	if t != nil {
		t(e)
	}
}

// Phase reports a phase that began at start and has ended now.
func (t Tracer) Phase(name, detail string, start time.Time) {
	if t != nil {
		t(TraceEvent{Type: TracePhase, Name: name, Detail: detail, Duration: time.Since(start)})
	}
}
