package oneshot

import (
	"fmt"
	"io"
	"time"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// explanation prints what happens inside attempts.
type explanation struct {
	on    bool
	out   io.Writer
	start time.Time
}

// begin returns the tracer of an attempt; nil without --explain.
func (e *explanation) begin(attempt int) probe.Tracer {
	if !e.on {
		return nil
	}
	e.start = time.Now()
	fmt.Fprintf(e.out, "attempt %d of at most %d\n", attempt, probe.MaxAttempts)
	return func(t probe.TraceEvent) {
		took := ""
		if t.Type != probe.TraceLog {
			took = t.Duration.Round(time.Microsecond).String()
		}
		fmt.Fprintf(e.out, "  %-6s  %-12s  %10s  %s\n", t.Type, explain.OneLine(t.Name), took, explain.OneLine(t.Detail))
	}
}

// end prints the result of the attempt.
func (e *explanation) end(outcome probe.Outcome, err error) {
	if !e.on {
		return
	}
	took := time.Since(e.start).Round(time.Microsecond)
	switch {
	case err != nil:
		fmt.Fprintf(e.out, "  error after %s, reason %s: %s\n", took, probe.ReasonOf(err), explain.OneLine(err.Error()))
	case outcome.Reason != "":
		fmt.Fprintf(e.out, "  %s after %s, reason %s\n", outcome.Result, took, outcome.Reason)
	default:
		fmt.Fprintf(e.out, "  %s after %s\n", outcome.Result, took)
	}
}
