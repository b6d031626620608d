package explain

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

// Limits of the texts on a line.
const (
	maxName   = 32
	maxDetail = 2000 // bytes
	barSize   = 20
)

// Attempt returns the line that begins an attempt.
func Attempt(n string) string {
	return fmt.Sprintf("attempt %s of at most %d", n, probe.MaxAttempts)
}

// WriteEvents writes events as a table, one line each. It escapes names and details, since they come from handlers
// and their targets. With bars, each phase and call has a bar in proportion to its share of their total duration.
func WriteEvents(w io.Writer, events []probe.TraceEvent, bars bool) error {
	width, total := 12, time.Duration(0)
	for i := range events {
		width = max(width, min(len(OneLine(events[i].Name)), maxName))
		if timed(&events[i]) {
			total += events[i].Duration
		}
	}
	var b strings.Builder
	for i := range events {
		e := &events[i]
		if e.Type == probe.TraceRetry {
			fmt.Fprintf(&b, "  error after %s: %s\n%s\n", Round(e.Duration), short(e.Detail), Attempt(short(e.Name)))
			continue
		}
		took, bar := "", ""
		if e.Type != probe.TraceLog {
			took = e.Duration.Round(time.Microsecond).String()
		}
		if bars {
			bar = strings.Repeat(" ", barSize+2)
			if timed(e) && total > 0 {
				bar = fmt.Sprintf("%-*s", barSize+2, strings.Repeat("#", max(1, int(barSize*e.Duration/total))))
			}
		}
		line := fmt.Sprintf("  %-6s  %-*s  %10s  %s%s", e.Type, width, clip.Marked(OneLine(e.Name), maxName, "..."), took, bar, short(e.Detail))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// timed reports whether the duration of e counts for the total. The duration of a wait is already part of a phase or a
// call.
func timed(e *probe.TraceEvent) bool { return e.Type == probe.TracePhase || e.Type == probe.TraceCall }

func short(text string) string { return clip.Marked(OneLine(text), maxDetail, "...") }

// Verdict returns a sentence about the effect that the result of a single attempt would have in a probe.
func Verdict(result probe.Result, err error) string {
	switch {
	case err != nil:
		return "a probe would not count this error (errorPolicy: discard): its result would stay as it is"
	case result == probe.Success:
		return "a probe would count this as a success"
	case result == probe.Warning:
		return "a probe would count this as a success, and send the event ProbeWarning"
	default:
		return "a probe would count this as a failure: failureThreshold of them in a row make its result failure"
	}
}
