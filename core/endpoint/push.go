package endpoint

import (
	"fmt"
	"reflect"
	"time"

	"github.com/daeace23/prober/core/states"
)

// Push is a check to which somebody reports results, with [Set.Report]. It fails when no report comes in
// time.
type Push struct {
	Thresholds
	// TTL is the time after a report, or after Put, in which the next one must come. Exactly one of TTL and
	// Schedule is set.
	TTL time.Duration
	// Schedule says when reports are due. Each must come within Grace.
	Schedule *Schedule
	Grace    time.Duration
	// MaxRun is the time in which a report must follow [Set.Started]; 0 means no limit.
	MaxRun time.Duration
	// Last is what an earlier set knew of the check, from [CheckStatus.Push]; nil or a zero value if nothing
	// is known. It may come from a damaged file: values that cannot be true are replaced by the nearest ones
	// that can.
	Last *PushState
}

// PushState is all that a set knows of a pushed check, to be kept over a restart. As JSON it has at most 8
// KiB, and fields with zero values are left out. The names of the fields are stable.
type PushState struct {
	Report  time.Time `json:"report,omitzero"`  // the last one; zero if there is none
	Put     time.Time `json:"put,omitzero"`     // when the wait for the first report began; zero after a report
	Started time.Time `json:"started,omitzero"` // the start of a run without a report yet; zero if there is none
	// StartPeriod is when [Check.StartPeriod] began; zero once it has ended.
	StartPeriod time.Time    `json:"startPeriod,omitzero"`
	State       states.State `json:"state,omitzero"` // "success", "warning" or "failure"; left out while it is unknown
	Since       time.Time    `json:"since,omitzero"` // start of State
	Text        string       `json:"text,omitzero"`  // as in [CheckStatus]
	Late        bool         `json:"late,omitzero"`  // State is failure because no report came in time
	Run         int          `json:"run,omitzero"`   // number of equal results in a row, at the end of Results
	// Results are the last ones, the newest last, as far as the thresholds need them: "s" is a success or a
	// warning, "f" a failure.
	Results string `json:"results,omitzero"`
}

// pushes is what a pushed check knows, beside its results.
type pushes struct {
	cfg      Push      // without Last
	from     time.Time // of the present wait for a report: the last report, or the first Put
	started  time.Time // start of the run under way; zero for none
	reported bool      // there was a report
	late     bool      // no report came in time
}

// pushState returns what a pushed check knows.
func (c *check[K]) pushState() *PushState {
	x, p := c.extra, c.extra.push
	st := &PushState{
		Started: p.started, StartPeriod: x.grace, State: c.state, Since: time.Unix(0, c.since), Text: c.text, Late: p.late,
		Run: int(x.run), Results: x.results(max(1, p.cfg.Of)),
	}
	if p.reported {
		st.Report = p.from
	} else {
		st.Put = p.from
	}
	return st
}

// restore takes back what a pushed check knew. No field of last is trusted.
func (c *check[K]) restore(last *PushState, startPeriod time.Duration, now time.Time) {
	x, p := c.extra, c.extra.push
	x.streak = restored(last.Results, last.Run)
	p.reported = !last.Report.IsZero()
	for _, from := range []time.Time{last.Report, last.Put} {
		if !from.IsZero() {
			p.from = possible(from, now)
			break
		}
	}
	p.started, x.grace = possible(last.Started, now), possible(last.StartPeriod, now)
	if last.State <= states.Failure {
		c.state = last.State
	}
	if c.passes() || startPeriod == 0 {
		x.grace = time.Time{}
	}
	if !last.Since.IsZero() {
		c.since = possible(last.Since, now).UnixNano()
	}
	c.text = shortened(last.Text)
	p.late = last.Late && c.state == states.Failure
}

// possible returns t if it is a time of an event that has happened, or else the nearest such time. Zero stays
// zero.
func possible(t, now time.Time) time.Time {
	switch epoch := time.Unix(0, 0); {
	case t.IsZero():
		return t
	case t.After(now):
		return now
	case t.Before(epoch):
		return epoch
	default:
		return t
	}
}

func (p *Push) check() (problem string) {
	switch {
	case p == nil:
		return ""
	case (p.TTL != 0) == (p.Schedule != nil):
		return "exactly one of TTL and Schedule must be set"
	case p.TTL < 0 || p.Grace < 0 || p.MaxRun < 0:
		return "TTL, Grace and MaxRun must not be negative"
	case p.Schedule == nil && p.Grace != 0:
		return "Grace is only for a Schedule"
	}
	return p.Thresholds.check()
}

// due returns when a report must have come, after the last report or the start; the zero time means never.
func (p *Push) due(from time.Time) time.Time {
	if p.Schedule == nil {
		return from.Add(p.TTL)
	}
	next := p.Schedule.Next(from)
	if next.IsZero() {
		return next
	}
	return next.Add(p.Grace)
}

// missing returns the text of the failure without a report that was due.
func (p *Push) missing(due time.Time) string {
	if p.Schedule != nil {
		return "no report for the time " + due.Add(-p.Grace).Format("2006-01-02 15:04 MST")
	}
	return fmt.Sprintf("no report for %v", p.TTL)
}

// equal reports whether two configurations are equal but for what an earlier set knew.
func (p *Push) equal(o *Push) bool {
	x, y := *p, *o
	x.Last, y.Last = nil, nil
	return reflect.DeepEqual(x, y)
}
