package manager

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/probe"
)

// TestTraceIsRedacted calls the handler itself: the manager hands no tracer to it.
func TestTraceIsRedacted(t *testing.T) {
	var got []probe.TraceEvent
	h := redacted(probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
		req.Trace.Emit(probe.TraceEvent{Type: probe.TraceCall, Name: "get pw", Detail: "pw-longer, pw"})
		return probe.Outcome{}, nil
	}), []string{"pw", "pw-longer"})
	if _, err := h.Probe(t.Context(), probe.Request{Trace: func(e probe.TraceEvent) { got = append(got, e) }}); err != nil {
		t.Fatal(err)
	}
	want := []probe.TraceEvent{{Type: probe.TraceCall, Name: "get [redacted]", Detail: "[redacted], [redacted]"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
