package explain_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

func TestWriteEvents(t *testing.T) {
	events := []probe.TraceEvent{
		{Type: probe.TracePhase, Name: "connect", Detail: "10.0.0.7:80", Duration: 250 * time.Microsecond},
		{Type: probe.TracePhase, Name: "first byte", Duration: 750 * time.Microsecond},
		{Type: probe.TraceLog, Name: "warn", Detail: "slow"},
		{Type: probe.TraceRetry, Name: "2", Detail: "broken\nhere", Duration: 2 * time.Millisecond},
		{Type: probe.TraceDenied, Name: "dial", Detail: "10.0.0.8:80"},
	}
	for bars, want := range map[bool]string{
		false: "  phase   connect            250µs  10.0.0.7:80\n" +
			"  phase   first byte         750µs\n" +
			"  log     warn                      slow\n" +
			"  error after 2ms: broken here\nattempt 2 of at most 3\n" +
			"  denied  dial                  0s  10.0.0.8:80\n",
		true: "  phase   connect            250µs  #####                 10.0.0.7:80\n" +
			"  phase   first byte         750µs  ###############\n" +
			"  log     warn                                            slow\n" +
			"  error after 2ms: broken here\nattempt 2 of at most 3\n" +
			"  denied  dial                  0s                        10.0.0.8:80\n",
	} {
		var b strings.Builder
		if err := explain.WriteEvents(&b, events, bars); err != nil || b.String() != want {
			t.Errorf("bars %t, %v: got\n%s\nwant\n%s", bars, err, b.String(), want)
		}
	}
}

func TestWriteEventsIsHarmless(t *testing.T) {
	hostile := "\x1b[2J\x1b]0;title\x07<script>\r\n\xff\xfe\u2028\u009b" + strings.Repeat("x", 1<<20)
	for _, kind := range []probe.TraceType{probe.TracePhase, probe.TraceCall, probe.TraceLog, probe.TraceDenied, probe.TraceWait, probe.TraceRetry} {
		var b strings.Builder
		if err := explain.WriteEvents(&b, []probe.TraceEvent{{Type: kind, Name: hostile, Detail: hostile}}, true); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), unicode.IsControl); i >= 0 || len(line) > 5000 {
				t.Errorf("%s: %d bytes, %q", kind, len(line), line[:100])
			}
		}
	}
}

func TestVerdict(t *testing.T) {
	for result, want := range map[probe.Result]string{
		probe.Success: "as a success", probe.Warning: "as a success, and send the event", probe.Failure: "as a failure", probe.Unknown: "as a failure",
	} {
		if got := explain.Verdict(result, nil); !strings.Contains(got, want) {
			t.Errorf("%v: %s", result, got)
		}
	}
	if got := explain.Verdict(probe.Unknown, errors.New("broken")); !strings.Contains(got, "would not count") {
		t.Error(got)
	}
}
