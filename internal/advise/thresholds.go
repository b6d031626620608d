package advise

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/whatif"
	"github.com/daeace23/prober/probe"
)

const (
	usual        = 3  // failureThreshold of most probes, and of Kubernetes
	mostFailures = 10 // failureThreshold
	mostWait     = 5 * time.Minute
	briefly      = 2 // attempts between outages that are no recovery
)

// failuresOf suggests a failureThreshold that most outages do not reach.
func failuresOf(m *measured, s Spec) *change {
	all := len(m.outages) + m.lasting
	for most := s.Failure; most < mostFailures; most++ {
		brief := 0
		for _, o := range m.outages {
			if o.Attempts <= most {
				brief++
			}
		}
		if brief < minCases || float64(brief) < mostOf*float64(all) {
			continue
		}
		next := max(most+1, usual)
		if time.Duration(next)*s.Period > mostWait {
			return nil
		}
		lasted := "one attempt"
		if most > 1 {
			lasted = fmt.Sprintf("at most %d attempts", most)
		}
		return &change{
			Suggestion{FailureThreshold, strconv.Itoa(s.Failure), strconv.Itoa(next), fmt.Sprintf("%d of %d outages lasted %s", brief, all, lasted)},
			func(s *Spec) { s.Failure = next },
		}
	}
	return nil
}

// successesOf suggests a successThreshold that ends no outage in between. Kubernetes allows none for other
// kinds.
func successesOf(m *measured, s Spec) *change {
	if s.Kind != probe.Readiness.String() || s.Success > briefly {
		return nil
	}
	brief := 0
	for _, gap := range m.gaps {
		if gap <= briefly {
			brief++
		}
	}
	if brief < minCases || float64(brief) < mostOf*float64(len(m.gaps)) {
		return nil
	}
	next := briefly + 1
	return &change{
		Suggestion{SuccessThreshold, strconv.Itoa(s.Success), strconv.Itoa(next), fmt.Sprintf("after %d of %d outages the next one began within %d attempts", brief, len(m.gaps), briefly)},
		func(s *Spec) { s.Success = next },
	}
}

// keeps reports whether the replay of the changes with next has no more failures than before, and has every
// outage that lasts longer than the detection takes.
func keeps(before whatif.Thresholds, next Spec, probes []Probe) bool {
	if replayed(before, next.Thresholds, probes) > failures(probes) {
		return false
	}
	return !slices.ContainsFunc(probes, func(p Probe) bool { return loses(before, &next, p.Changes) })
}

// loses reports whether a replay lacks an outage that lasts longer than the detection takes.
func loses(before whatif.Thresholds, next *Spec, changes []api.StateChange) bool {
	replay := whatif.Outages(whatif.Apply(slices.Clone(changes), before, next.Thresholds), next.Thresholds)
	return slices.ContainsFunc(whatif.Outages(changes, before), func(o whatif.Outage) bool {
		if !o.Ended.IsZero() && o.Ended.Sub(o.Began) <= next.detection() {
			return false
		}
		return !slices.ContainsFunc(replay, func(r whatif.Outage) bool {
			return (o.Ended.IsZero() || !r.Began.After(o.Ended)) && (r.Ended.IsZero() || !r.Ended.Before(o.Began))
		})
	})
}

// failures returns the number of changes to failure.
func failures(probes []Probe) (n int) {
	for i := range probes {
		n += failuresIn(probes[i].Changes)
	}
	return n
}

func failuresIn(changes []api.StateChange) (n int) {
	for i := range changes {
		if changes[i].To == states.Failure.String() {
			n++
		}
	}
	return n
}

// replayed returns the number of failures with other thresholds.
func replayed(before, next whatif.Thresholds, probes []Probe) (n int) {
	for i := range probes {
		n += failuresIn(whatif.Apply(slices.Clone(probes[i].Changes), before, next))
	}
	return n
}
