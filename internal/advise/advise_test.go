package advise_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/internal/advise"
	"github.com/daeace23/prober/internal/whatif"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

const second = time.Second

func spec(period, timeout time.Duration, success, failure int) advise.Spec {
	return advise.Spec{Thresholds: whatif.Thresholds{Period: period, Success: success, Failure: failure}, Timeout: timeout, Kind: "readiness"}
}

// points returns points of ten minutes for a time, with an attempt each 10 s, and the longest duration of each point.
func points(last time.Duration, longest func(i int) float64) (all []api.HistoryPoint) {
	for i := range int(last / (10 * time.Minute)) {
		took := longest(i)
		all = append(all, api.HistoryPoint{Time: start.Add(time.Duration(i) * 10 * time.Minute), Success: 60, MeanSeconds: took / 2, MaxSeconds: took})
	}
	return all
}

func always(seconds float64) func(int) float64 { return func(int) float64 { return seconds } }

// decide returns the changes that thresholds make of results, one each period; true is a success.
func decide(list []bool, t whatif.Thresholds) (all []api.StateChange) {
	words := map[bool]string{true: "success", false: "failure"}
	state, run := "absent", 0
	for i, ok := range list {
		run++
		if i == 0 || list[i-1] != ok {
			run = 1
		}
		need := t.Failure
		if ok {
			need = t.Success
		}
		if to := words[ok]; to != state && (run >= need || state == "absent") {
			all = append(all, api.StateChange{Pod: "a", Transition: api.Transition{Time: start.Add(time.Duration(i) * t.Period), From: state, To: to}})
			state = to
		}
	}
	return all
}

// runs returns results: successes and failures in turn.
func runs(lengths ...int) (list []bool) {
	for i, n := range lengths {
		list = append(list, slices.Repeat([]bool{i%2 == 0}, n)...)
	}
	return list
}

// cycle returns n times the lengths.
func cycle(n int, lengths ...int) []int { return slices.Repeat(lengths, n) }

func TestFor(t *testing.T) {
	const week = 7 * 24 * time.Hour
	brief := append(cycle(34, 100, 1), 100, 20, 100, 30, 100)
	for name, c := range map[string]struct {
		spec    advise.Spec
		points  []api.HistoryPoint
		results []bool
		want    string
	}{
		"healthy":               {spec(10*second, second, 1, 3), points(week, always(0.1)), runs(1000), ""},
		"no data":               {spec(10*second, second, 1, 3), nil, nil, "too little: 0 attempts, fewer than 1000"},
		"few attempts":          {spec(10*second, second, 1, 3), points(2*time.Hour, always(0.9)), nil, "too little: 720 attempts, fewer than 1000"},
		"short time":            {spec(10*second, second, 1, 1), points(12*time.Hour, always(0.9)), runs(brief...), "too little: attempts of 11h50m, less than 1d"},
		"tight timeout":         {spec(10*second, second, 1, 3), points(week, always(0.92)), nil, "timeout 1s -> 3s: 99.9% of 60480 attempts took at most 920ms in 6d23h50m"},
		"one slow attempt":      {spec(10*second, second, 1, 3), points(week, func(i int) float64 { return 0.1 + 0.85*float64(1-min(i, 1)) }), nil, ""},
		"whole timeout":         {spec(10*second, second, 1, 3), points(week, func(i int) float64 { return []float64{0.1, 1.01}[i%2] }), nil, "timeout 1s -> 5s: more than 0.1% of 60480 attempts took the whole timeout in 6d23h50m, and others then succeeded"},
		"no room in the period": {spec(2*second, 2*second, 1, 3), points(week, always(1.5)), nil, ""},
		"long timeout":          {spec(10*second, 30*second, 1, 3), points(week, always(0.5)), nil, "timeout 30s -> 2s: 99.9% of 60480 attempts took at most 500ms in 6d23h50m; while the target hangs, attempts are 30s apart, not 10s"},
		"slow target":           {spec(10*second, 30*second, 1, 3), points(week, always(9)), nil, "period 10s -> 30s: the timeout is 30s: while the target hangs, attempts are not 10s apart"},
		"period below attempts": {spec(5*second, 5*second, 1, 3), points(week, always(7)), nil, "period 5s -> 15s: 60480 attempts took 3.5s on average"},
		"brief outages":         {spec(10*second, second, 1, 1), points(week, always(0.1)), runs(brief...), "failureThreshold 1 -> 3: 34 of 36 outages lasted one attempt"},
		"outages of 4 attempts": {spec(10*second, second, 1, 3), points(week, always(0.1)), runs(cycle(6, 100, 4)...), "failureThreshold 3 -> 5: 5 of 6 outages lasted at most 4 attempts"},
		"long outages":          {spec(10*second, second, 1, 1), points(week, always(0.1)), runs(cycle(20, 100, 30)...), ""},
		"few outages":           {spec(10*second, second, 1, 1), points(week, always(0.1)), runs(append(cycle(4, 100, 1), 100)...), ""},
		"long detection":        {spec(200*second, second, 1, 1), points(week, always(0.1)), runs(brief...), ""},
		"brief recoveries":      {spec(10*second, second, 1, 3), points(week, always(0.1)), runs(append([]int{100}, cycle(20, 30, 1)...)...), "successThreshold 1 -> 3: after 19 of 19 outages the next one began within 2 attempts"},
	} {
		a := advise.For(c.spec, []advise.Probe{{Points: c.points, Changes: decide(c.results, c.spec.Thresholds)}})
		var got []string
		if a.TooLittle != "" {
			got = append(got, "too little: "+a.TooLittle)
		}
		for _, s := range a.Suggestions {
			got = append(got, fmt.Sprintf("%s %s -> %s: %s", s.Field, s.Now, s.Advised, s.Reason))
		}
		if got := strings.Join(got, "; and "); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

func TestWithoutMaintenance(t *testing.T) {
	for changes, want := range map[string]string{
		"": "", "success failure success": "absent-success success-failure failure-success",
		"success failure* success failure success":         "absent-success success-failure failure-success",
		"success failure* unknown failure success warning": "absent-success success-warning",
		"success failure* warning":                         "absent-success success-warning",
		"failure* success failure":                         "absent-success success-failure",
		"failure* absent success":                          "absent-success",
		"success failure unknown* failure* success":        "absent-success success-failure failure-unknown unknown-success",
		"success failure success* failure success*":        "absent-success success-failure failure-success success-failure failure-success",
		"unknown unknown success*":                         "absent-unknown unknown-unknown unknown-success",
	} {
		var all []api.StateChange
		for word := range strings.FieldsSeq(changes) {
			all = append(all, api.StateChange{Maintenance: strings.HasSuffix(word, "*"), Transition: api.Transition{To: strings.TrimSuffix(word, "*")}})
		}
		var got []string
		for _, c := range advise.WithoutMaintenance(all) {
			got = append(got, c.From+"-"+c.To)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: got %q, want %q", changes, got, want)
		}
	}
}

// Outages of a weekly maintenance window are no reason for another threshold.
func TestOutagesOfMaintenanceAreNoReason(t *testing.T) {
	s := spec(10*second, second, 1, 1)
	changes := decide(runs(append(cycle(34, 100, 1), 100)...), s.Thresholds)
	data := points(7*24*time.Hour, always(0.1))
	if a := advise.For(s, []advise.Probe{{Points: data, Changes: advise.WithoutMaintenance(changes)}}); len(a.Suggestions) != 1 || a.Failures != 34 {
		t.Errorf("outages: %+v", a)
	}
	for i := range changes {
		changes[i].Maintenance = true
	}
	if a := advise.For(s, []advise.Probe{{Points: data, Changes: advise.WithoutMaintenance(changes)}}); len(a.Suggestions) > 0 || a.Data.Outages != 0 || a.Failures != 0 {
		t.Errorf("outages in maintenance: %+v", a)
	}
}

func TestLikeProbesAreMeasuredTogether(t *testing.T) {
	s := spec(10*second, second, 1, 1)
	var probes []advise.Probe
	for range 4 {
		probes = append(probes, advise.Probe{Points: points(48*time.Hour, always(0.1)), Changes: decide(runs(100, 1, 100, 1, 100), s.Thresholds)})
	}
	a := advise.For(s, probes)
	want := advise.Data{Attempts: 4 * 17280, Seconds: (48*time.Hour - 10*time.Minute).Seconds(), Outages: 8}
	if a.Data != want || len(a.Suggestions) != 1 || a.Failures != 8 || a.AdvisedFailures != 0 || a.Detection != 11*second || a.AdvisedDetection != 31*second {
		t.Errorf("%+v", a)
	}
}

// What is advised has no more failures in a replay of the same changes, and fails within every outage that lasts longer
// than the advised detection takes. The test decides by the results, which the advice does not know.
func TestAdviceKeepsLongOutages(t *testing.T) {
	suggestions := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		period := time.Duration(1+r.IntN(30)) * second
		s := spec(period, time.Duration(1+r.IntN(40))*second, 1+r.IntN(2), 1+r.IntN(4))
		lengths := []int{100}
		for range 10 + r.IntN(30) {
			lengths = append(lengths, max(s.Failure, 1+r.IntN(1+r.IntN(12))), max(s.Success, 1+r.IntN(1+r.IntN(60))))
		}
		lengths[len(lengths)-1] = 100
		list := runs(lengths...)
		changes := decide(list, s.Thresholds)
		probe := advise.Probe{Points: points(48*time.Hour, always(r.Float64()*s.Timeout.Seconds())), Changes: changes}
		a := advise.For(s, []advise.Probe{probe})
		next := s.Thresholds
		for _, x := range a.Suggestions {
			suggestions++
			switch x.Field {
			case advise.Period:
				next.Period, _ = time.ParseDuration(x.Advised)
			case advise.FailureThreshold:
				_, _ = fmt.Sscan(x.Advised, &next.Failure)
			case advise.SuccessThreshold:
				_, _ = fmt.Sscan(x.Advised, &next.Success)
			}
		}
		replay := whatif.Apply(slices.Clone(changes), s.Thresholds, next)
		if failures(replay) > failures(changes) || a.Failures != failures(changes) || a.AdvisedFailures != failures(replay) {
			t.Fatalf("seed %d: %d failures, %d with %+v", seed, failures(changes), failures(replay), a)
		}
		for i := 0; i < len(list); i++ {
			from := i
			for i < len(list) && !list[i] {
				i++
			}
			began, ended := start.Add(time.Duration(from)*period), start.Add(time.Duration(i)*period)
			if ended.Sub(began) > a.AdvisedDetection && !failsWithin(replay, began, ended) {
				t.Fatalf("seed %d: the outage from %v to %v is lost\n%+v\n%+v", seed, began, ended, s, a)
			}
		}
	}
	if suggestions < 1000 {
		t.Errorf("only %d suggestions", suggestions)
	}
}

func failures(changes []api.StateChange) (n int) {
	for _, c := range changes {
		if c.To == "failure" {
			n++
		}
	}
	return n
}

// failsWithin reports whether the state is failure at some time from began to ended.
func failsWithin(changes []api.StateChange, began, ended time.Time) bool {
	for i, c := range changes {
		if c.To == "failure" && !c.Time.After(ended) && (i+1 == len(changes) || changes[i+1].Time.After(began)) {
			return true
		}
	}
	return false
}
