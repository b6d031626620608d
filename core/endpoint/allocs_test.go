package endpoint

import (
	"testing"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// A result that changes nothing allocates nothing.
func TestResultsAllocateNothing(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "a", Endpoint[string]{Rule: Rule{Mode: Any}, Checks: append(pushed("push"), Check{Name: "http", Probe: &group.Probe{Handler: handler(probe.Success), Spec: spec}})})
		var active *check[string]
		if !s.with("a", "http", func(c *check[string], _ time.Time) bool { active = c; return true }) {
			t.Fatal("there is no check http")
		}
		for _, result := range []probe.Result{probe.Success, probe.Failure} {
			tick := &worker.Tick{Counted: true, Run: 1, Threshold: 1, Result: results.Success, After: results.Success, Outcome: probe.Outcome{Result: result, Output: "text"}}
			if result == probe.Failure {
				tick.Result, tick.After = results.Failure, results.Failure
			}
			for name, do := range map[string]func(){
				"report": func() { report(t, s, "a", result) },
				"tick":   func() { active.Tick(tick) },
			} {
				if n := testing.AllocsPerRun(100, do); n > 0 {
					t.Errorf("%s of %v: %v allocations", name, result, n)
				}
			}
		}
	})
}
