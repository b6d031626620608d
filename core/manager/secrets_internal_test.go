package manager

import (
	"context"
	"strings"
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

// TestMetricNamesAreRedacted has a secret in the name, and in the key of a label.
func TestMetricNamesAreRedacted(t *testing.T) {
	labels := map[string]string{"pw_key": "x", "user": "pw"}
	h := redacted(probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Metrics: []probe.Metric{{Name: "conn_pw", Value: 1}, {Name: "conn", Value: 2, Labels: labels}}}, nil
	}), []string{"pw"})
	got, err := h.Probe(t.Context(), probe.Request{})
	if err != nil {
		t.Fatal(err)
	}
	want := []probe.Metric{{Name: "conn", Value: 2, Labels: map[string]string{"user": "[redacted]"}}}
	if diff := cmp.Diff(want, got.Metrics); diff != "" {
		t.Error(diff)
	}
	if len(labels) != 2 {
		t.Error("the handler's own map was changed")
	}
}

func TestSecretMustBeText(t *testing.T) {
	resolve := func(string, string) (string, error) { return "pass\xffword", nil }
	_, _, err := ResolveSecrets([]byte(`{"password":"${file:/run/pw}"}`), resolve)
	if err == nil || !strings.Contains(err.Error(), "${file:/run/pw}: ") || !strings.Contains(err.Error(), "not valid UTF-8") || strings.Contains(err.Error(), "pass\xff") {
		t.Errorf("got %v", err)
	}
}
