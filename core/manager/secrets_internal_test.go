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

func TestSecretsAreRedactedInEveryForm(t *testing.T) {
	r := secretReplacer([]string{"a\"b\\c d&e/ü\n", "-----BEGIN KEY-----\nMIIEvQIBADAN\nab\n-----END KEY-----\n"})
	for text, want := range map[string]string{
		`is a"b\c d&e/ü`:                         "is [redacted]",
		`is "a\"b\\c d&e/ü"`:                     `is "[redacted]"`,
		`{"password":"a\"b\\c d\u0026e/ü"}`:      `{"password":"[redacted]"}`,
		"http://x/?p=a%22b%5Cc+d%26e%2F%C3%BC":   "http://x/?p=[redacted]",
		"http://x/a%22b%5Cc%20d&e%2F%C3%BC/y":    "http://x/[redacted]/y",
		"x509: MIIEvQIBADAN is no line of a key": "x509: [redacted] is no line of a key",
	} {
		if got := r.Replace(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if got := r.Replace("ab is no secret"); got != "ab is no secret" {
		t.Errorf("got %q", got)
	}
}
