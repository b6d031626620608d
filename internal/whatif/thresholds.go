package whatif

import (
	"math"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/core/states"
)

// Thresholds decide when results are a state.
type Thresholds struct {
	Period           time.Duration
	Success, Failure int // results in a row
}

// delay returns how long after the first of n results in a row their state is decided.
func (t Thresholds) delay(n int) time.Duration { return time.Duration(n-1) * t.Period }

// results returns the number of attempts in d, at least one.
func (t Thresholds) results(d time.Duration) int {
	return max(1, int(math.Round(float64(d)/float64(t.Period))))
}

// Apply returns the changes that now would have made of the results that made changes with before: of one probe, in
// the order of time. The error of a time is up to a period. Results that were too few in a row for before are not in
// its changes: smaller thresholds may have made more changes, and a flapping probe others.
func Apply(changes []api.StateChange, before, now Thresholds) []api.StateChange {
	if before == now {
		return changes
	}
	var all []api.StateChange
	for i := 0; i < len(changes); i++ {
		c := changes[i]
		if c.To != states.Failure.String() {
			all = append(all, c)
			continue
		}
		end := recoveryAfter(changes, i)
		began := c.Time.Add(-before.delay(before.Failure))
		if c.From == absent { // it was failing when the changes begin
			began = c.Time
		}
		c.Time = began.Add(now.delay(now.Failure))
		if end == len(changes) {
			all = append(all, c)
			continue
		}
		ended := recoveredAt(&changes[end], before)
		if now.results(ended.Sub(began)) < now.Failure {
			i = end // it would not have been a failure
			continue
		}
		// Failures go on until enough successes follow one of them.
		for next := end + 1; next < len(changes) && changes[end].To != absent; next++ {
			if changes[next].To != states.Failure.String() {
				continue
			}
			if now.results(changes[next].Time.Add(-before.delay(before.Failure)).Sub(ended)) >= now.Success {
				break
			}
			if end = recoveryAfter(changes, next); end == len(changes) {
				break
			}
			next, ended = end, recoveredAt(&changes[end], before)
		}
		all = append(all, c)
		if i = end; end < len(changes) {
			recovery := changes[end]
			if recovery.To != absent {
				recovery.Time = ended.Add(now.delay(now.Success))
			}
			all = append(all, recovery)
		}
	}
	return chained(all)
}

const absent = "absent"

// recoveryAfter returns the index of the change that ends the failure at i; len(changes) if it does not end.
// Unknown ends no failure.
func recoveryAfter(changes []api.StateChange, i int) int {
	for i++; i < len(changes); i++ {
		if to := changes[i].To; to != states.Failure.String() && to != states.Unknown.String() {
			break
		}
	}
	return i
}

// recoveredAt returns the time of the first result of those that ended a failure.
func recoveredAt(c *api.StateChange, before Thresholds) time.Time {
	if c.To == absent {
		return c.Time
	}
	return c.Time.Add(-before.delay(before.Success))
}

// chained sorts changes, and makes each begin with the state in which the one before it ends.
func chained(changes []api.StateChange) (all []api.StateChange) {
	slices.SortStableFunc(changes, func(a, b api.StateChange) int { return a.Time.Compare(b.Time) })
	state := absent
	for _, c := range changes {
		if c.To != state {
			c.From, state = state, c.To
			all = append(all, c)
		}
	}
	return all
}

// Outage is a run of failures that was decided to be a failure.
type Outage struct {
	Began    time.Time // time of the first failure
	Ended    time.Time // time of the first success after it, or the end of the probe; zero while it lasts
	Attempts int       // failures, with an error of one; 0 while it lasts
}

// Outages returns the outages in changes that t made: of one probe, in the order of time. A probe that was
// failing when the changes begin has an outage from then on.
func Outages(changes []api.StateChange, t Thresholds) (all []Outage) {
	for i := 0; i < len(changes); i++ {
		c := &changes[i]
		if c.To != states.Failure.String() {
			continue
		}
		o := Outage{Began: c.Time.Add(-t.delay(t.Failure))}
		if c.From == absent {
			o.Began = c.Time
		}
		if i = recoveryAfter(changes, i); i < len(changes) {
			o.Ended = recoveredAt(&changes[i], t)
			o.Attempts = t.results(o.Ended.Sub(o.Began))
		}
		all = append(all, o)
	}
	return all
}
