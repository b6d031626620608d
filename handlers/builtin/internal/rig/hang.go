package rig

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
)

// Hang makes an attempt that must end at its deadline, and returns the field "waiting" of its details. It
// checks that the last event of the trace says the same.
func Hang(t *testing.T, h probe.Handler) string { return HangFor(t, h, 200*time.Millisecond) }

// HangFor is like Hang with another timeout.
func HangFor(t *testing.T, h probe.Handler, timeout time.Duration) string {
	t.Helper()
	var last probe.TraceEvent
	traced, err := Attempt(t, h, probe.Request{Trace: func(e probe.TraceEvent) { last = e }}, timeout)
	if err != nil || traced.Result != probe.Failure {
		t.Fatalf("got %v, %v", traced, err)
	}
	waiting := waitingOf(t, traced)
	if last.Type != probe.TraceWait || !strings.HasPrefix(waiting, last.Name+" ") || last.Duration <= 0 {
		t.Errorf("last event %+v; details %s", last, waiting)
	}
	plain, err := Attempt(t, h, probe.Request{}, timeout)
	if err != nil || plain.Output != traced.Output {
		t.Errorf("without a trace %q, %v; with one %q", plain.Output, err, traced.Output)
	}
	if got, with := strings.Fields(waitingOf(t, plain))[0], strings.Fields(waiting)[0]; got != with {
		t.Errorf("without a trace it waits for %q, with one for %q", got, with)
	}
	return waiting
}

func waitingOf(t *testing.T, out probe.Outcome) string {
	t.Helper()
	return Detail(t, out, "waiting")
}

// Detail returns a text among the details, or "" if it is not set.
func Detail(t *testing.T, out probe.Outcome, name string) string {
	t.Helper()
	if out.Details == "" {
		return ""
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(out.Details), &fields); err != nil {
		t.Fatalf("details %q: %v", out.Details, err)
	}
	text, _ := fields[name].(string)
	return text
}

// WantWaiting checks that got, a result of Hang, matches pattern.
func WantWaiting(t *testing.T, got, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(got) {
		t.Errorf("waiting %q does not match %s", got, pattern)
	}
}
