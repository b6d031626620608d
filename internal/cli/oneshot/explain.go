package oneshot

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// explanation prints the events of attempts.
type explanation struct {
	on     bool
	out    io.Writer
	start  time.Time
	events []probe.TraceEvent
}

// begin returns the tracer of an attempt; nil without --explain.
func (e *explanation) begin(attempt int) probe.Tracer {
	if !e.on {
		return nil
	}
	e.start, e.events = time.Now(), nil
	fmt.Fprintln(e.out, explain.Attempt(strconv.Itoa(attempt)))
	return func(t probe.TraceEvent) { e.events = append(e.events, t) }
}

// end prints the events of the attempt and its result.
func (e *explanation) end(outcome probe.Outcome, err error) {
	if !e.on {
		return
	}
	took := time.Since(e.start).Round(time.Microsecond)
	_ = explain.WriteEvents(e.out, e.events, command.IsTerminal(e.out)) // errors of stderr are ignored
	switch {
	case err != nil:
		fmt.Fprintf(e.out, "  error after %s, reason %s: %s\n", took, probe.ReasonOf(err), explain.OneLine(err.Error()))
	case outcome.Reason != "":
		fmt.Fprintf(e.out, "  %s after %s, reason %s\n", outcome.Result, took, outcome.Reason)
	default:
		fmt.Fprintf(e.out, "  %s after %s\n", outcome.Result, took)
	}
}

// verdict prints the result that a probe would have after the last attempt.
func (e *explanation) verdict(outcome probe.Outcome, err error) {
	if e.on {
		fmt.Fprintln(e.out, explain.Verdict(outcome.Result, err))
	}
}
