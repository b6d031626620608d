// Package advise suggests timeouts, periods and thresholds of probes, from what an agent has measured. It
// is pure.
//
// timing.go has the suggestions for timeouts and periods, and thresholds.go the ones for thresholds, which
// it replays with package whatif: they are made only if the replay has no more failures, and has lost no
// long outage.
package advise

import (
	"fmt"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/timespan"
	"github.com/daeace23/prober/internal/whatif"
)

const (
	// MinAttempts and MinTime are the least data for a suggestion.
	MinAttempts = 1000
	MinTime     = 24 * time.Hour

	minCases = 5   // outages or recoveries for a suggestion
	mostOf   = 0.8 // share of the cases that a suggestion is about
)

// Spec is the present configuration of like probes.
type Spec struct {
	whatif.Thresholds
	Timeout time.Duration
	Kind    string
}

// Probe is what was measured of one probe.
type Probe struct {
	Points  []api.HistoryPoint // empty if they were not asked for
	Changes []api.StateChange  // in the order of time; see [WithoutMaintenance]
}

// WithoutMaintenance returns changes of a probe, in the order of time, without the outages that begin in a
// maintenance window. The probe stays in its last state until it is well or gone.
func WithoutMaintenance(changes []api.StateChange) (kept []api.StateChange) {
	failure, unknown := states.Failure.String(), states.Unknown.String()
	last, skips := "absent", false
	for _, c := range changes {
		skips = c.To == failure && (skips || c.Maintenance) || c.To == unknown && skips
		if skips || c.To == last && c.To != unknown {
			continue
		}
		c.From = last
		last = c.To
		kept = append(kept, c)
	}
	return kept
}

// Data says how much was measured.
type Data struct {
	// Attempts is the number of attempts whose durations are known.
	Attempts int `json:"attempts"`
	// Seconds is the time between the first and the last of them.
	Seconds float64 `json:"seconds"`
	Outages int     `json:"outages"`
}

// Fields of a [Suggestion].
const (
	Timeout          = "timeout"
	Period           = "period"
	FailureThreshold = "failureThreshold"
	SuccessThreshold = "successThreshold"
)

// Suggestion is another value of a field.
type Suggestion struct {
	Field   string `json:"field"`
	Now     string `json:"now"`
	Advised string `json:"advised"`
	Reason  string `json:"reason"`
}

// Advice is the result for like probes.
type Advice struct {
	Data        Data         `json:"data"`
	TooLittle   string       `json:"tooLittle,omitzero"` // why nothing is suggested; "" if there is enough data
	Suggestions []Suggestion `json:"suggestions"`
	// Detection is the longest time from the begin of an outage until it is a failure, and Failures is
	// their number in the measured time: now, and as advised.
	Detection, AdvisedDetection time.Duration `json:"-"`
	Failures, AdvisedFailures   int           `json:"-"`
}

// change is a suggestion, with its effect.
type change struct {
	Suggestion
	apply func(*Spec)
}

// For returns the advice for probes with the same configuration.
func For(spec Spec, probes []Probe) (a Advice) {
	a.Suggestions = []Suggestion{}
	m := measure(&spec, probes)
	a.Data = m.Data
	a.Detection, a.Failures = spec.detection(), failures(probes)
	next := spec
	if a.TooLittle = m.tooLittle(); a.TooLittle == "" {
		for _, f := range []func(*measured, Spec) *change{timeoutOf, periodOf, failuresOf, successesOf} {
			c := f(m, next)
			if c == nil {
				continue
			}
			tried := next
			if c.apply(&tried); keeps(spec.Thresholds, tried, probes) {
				next = tried
				a.Suggestions = append(a.Suggestions, c.Suggestion)
			}
		}
	}
	a.AdvisedDetection, a.AdvisedFailures = next.detection(), replayed(spec.Thresholds, next.Thresholds, probes)
	return a
}

// detection returns the longest time from the begin of an outage until it is a failure.
func (s *Spec) detection() time.Duration {
	return time.Duration(s.Failure)*s.Period + s.Timeout
}

// measured is what was measured of like probes.
type measured struct {
	Data
	points  []api.HistoryPoint // with an attempt that succeeded
	mean    time.Duration      // of their attempts
	outages []whatif.Outage    // that have ended
	gaps    []int              // attempts from the end of an outage to the next one of the probe
	lasting int                // outages that have not ended
}

func measure(spec *Spec, probes []Probe) *measured {
	m := &measured{}
	var first, last time.Time
	total := 0.0
	for i := range probes {
		p := &probes[i]
		for _, point := range p.Points {
			n := attemptsOf(&point)
			if n == 0 {
				continue
			}
			m.Attempts += n
			total += point.MeanSeconds * float64(n)
			if first.IsZero() || point.Time.Before(first) {
				first = point.Time
			}
			if point.Time.After(last) {
				last = point.Time
			}
			if point.Success+point.Warning > 0 { // else the target was down, and the timeout was the duration
				m.points = append(m.points, point)
			}
		}
		m.addOutages(spec, whatif.Outages(p.Changes, spec.Thresholds))
	}
	m.Seconds, m.Outages = last.Sub(first).Seconds(), len(m.outages)+m.lasting
	if m.Attempts > 0 {
		m.mean = time.Duration(total / float64(m.Attempts) * float64(time.Second))
	}
	return m
}

func (m *measured) addOutages(spec *Spec, outages []whatif.Outage) {
	for i, o := range outages {
		if o.Ended.IsZero() {
			m.lasting++
			continue
		}
		m.outages = append(m.outages, o)
		if i+1 < len(outages) {
			m.gaps = append(m.gaps, int(outages[i+1].Began.Sub(o.Ended)/spec.Period))
		}
	}
}

func attemptsOf(p *api.HistoryPoint) int { return p.Success + p.Warning + p.Failure + p.Unknown }

// tooLittle returns why there is too little data; "" if there is enough.
func (m *measured) tooLittle() string {
	time := time.Duration(m.Seconds * float64(time.Second))
	switch {
	case m.Attempts < MinAttempts:
		return fmt.Sprintf("%d attempts, fewer than %d", m.Attempts, MinAttempts)
	case time < MinTime:
		return fmt.Sprintf("attempts of %s, less than %s", timespan.Format(time), timespan.Format(MinTime))
	}
	return ""
}

// span formats a duration of a reason.
func span(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return timespan.Format(d.Round(time.Second))
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}
