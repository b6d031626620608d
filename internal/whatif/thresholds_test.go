package whatif

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/api"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// decide returns the changes that thresholds make of results, one each period; true is a success. The first result
// decides at once.
func decide(list []bool, t Thresholds) (all []api.StateChange) {
	words := map[bool]string{true: "success", false: "failure"}
	state, run := absent, 0
	for i, ok := range list {
		if i > 0 && list[i-1] == ok {
			run++
		} else {
			run = 1
		}
		need := t.Failure
		if ok {
			need = t.Success
		}
		if to := words[ok]; to != state && (run >= need || state == absent) {
			all = append(all, api.StateChange{Pod: "a", Transition: api.Transition{Time: start.Add(time.Duration(i) * t.Period), From: state, To: to}})
			state = to
		}
	}
	return all
}

func lines(changes []api.StateChange) (all []string) {
	for _, c := range changes {
		all = append(all, fmt.Sprintf("%v %s-%s", c.Time.Sub(start), c.From, c.To))
	}
	return all
}

// Larger thresholds make the same of the changes as of the results, if no run of results was too
// short for a change.
func TestApplyEqualsResultsOfLargerThresholds(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		before := Thresholds{10 * time.Second, 1 + r.IntN(3), 1 + r.IntN(4)}
		now := Thresholds{before.Period, before.Success + r.IntN(3), before.Failure + r.IntN(4)}
		list := []bool{true, true, true, true, true, true}
		for len(list) < 120 {
			list = append(list, slices.Repeat([]bool{r.IntN(3) > 0}, max(before.Success, before.Failure)+r.IntN(9))...)
		}
		got, want := Apply(decide(list, before), before, now), decide(list, now)
		end := start.Add(time.Duration(len(list)-12) * before.Period) // later results are missing
		late := func(c api.StateChange) bool { return c.Time.After(end) }
		if got, want := lines(slices.DeleteFunc(got, late)), lines(slices.DeleteFunc(want, late)); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %+v after %+v\ngot  %q\nwant %q", seed, now, before, got, want)
		}
	}
}

func TestApplyOtherPeriod(t *testing.T) {
	change := func(at time.Duration, from, to string) api.StateChange {
		return api.StateChange{Transition: api.Transition{Time: start.Add(at), From: from, To: to}}
	}
	changes := []api.StateChange{
		change(0, absent, "success"),
		change(time.Minute, "success", "failure"), // since 0:40, with a period of 10 s
		change(100*time.Second, "failure", "success"),
		change(10*time.Minute, "success", "warning"),
		change(11*time.Minute, "warning", "failure"),
		change(12*time.Minute, "failure", "unknown"),
		change(13*time.Minute, "unknown", "success"),
		change(20*time.Minute, "success", absent),
	}
	before := Thresholds{10 * time.Second, 1, 3}
	for name, c := range map[string]struct {
		now  Thresholds
		want []string
	}{
		"equal": {before, lines(changes)},
		"longer period": {Thresholds{30 * time.Second, 1, 3}, []string{
			"0s absent-success", "10m0s success-warning", "11m40s warning-failure", "13m0s failure-success", "20m0s success-absent",
		}},
		"shorter period": {Thresholds{time.Second, 2, 3}, []string{
			"0s absent-success", "42s success-failure", "1m41s failure-success", "10m0s success-warning", "10m42s warning-failure", "13m1s failure-success", "20m0s success-absent",
		}},
	} {
		if got := lines(Apply(slices.Clone(changes), before, c.now)); !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
	}
}
