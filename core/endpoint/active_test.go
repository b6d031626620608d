package endpoint

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// StartPeriod begins again for a check whose probe has changed, and for no other.
func TestStartPeriodBeginsAgainForChangedProbe(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		handlers := map[string]*scripted{"changed": handler(probe.Success), "same": handler(probe.Success)}
		e := Endpoint[string]{Checks: []Check{
			{Name: "changed", StartPeriod: 25 * time.Second, Probe: &group.Probe{Handler: handlers["changed"], Spec: spec}},
			{Name: "same", StartPeriod: 25 * time.Second, Probe: &group.Probe{Handler: handlers["same"], Spec: spec}},
		}}
		put(t, s, "a", e)
		expect(t, s, "a", states.Success, "")
		for _, h := range handlers {
			h.set(probe.Failure)
		}
		e.Checks = slices.Clone(e.Checks)
		e.Checks[0].Probe = &group.Probe{Handler: handlers["changed"], Spec: spec, Target: probe.Target{Host: "10.0.0.2"}}
		e.Rule = Rule{Mode: Any}
		put(t, s, "a", e) // another target is probed at once
		expect(t, s, "a", states.Success, "")
		time.Sleep(10 * time.Second)
		expect(t, s, "a", states.Unknown, "1 of 2 checks are unknown: changed: it is failure")
		if st := mustStatus(t, s, "a"); st.Checks[0].State != states.Failure || st.Checks[1].State != states.Failure || st.Checks[0].Next.IsZero() || !st.Checks[1].Next.IsZero() {
			t.Errorf("%+v", st.Checks)
		}
		e.Checks[0].Weight, e.Checks[0].Unhealthy = 2, 10*time.Second // not of the probe
		put(t, s, "a", e)
		time.Sleep(15*time.Second - 1)
		expect(t, s, "a", states.Unknown, "changed")
		time.Sleep(time.Nanosecond)
		expect(t, s, "a", states.Failure, "2 of 2 checks fail")

		e.Checks[0].Probe = &group.Probe{Handler: handlers["changed"], Spec: spec}
		put(t, s, "a", e)
		expect(t, s, "a", states.Unknown, "changed")
		handlers["changed"].set(probe.Success)
		time.Sleep(10 * time.Second)
		expect(t, s, "a", states.Success, "")
		handlers["changed"].set(probe.Failure)
		time.Sleep(10 * time.Second) // the success has ended it
		expect(t, s, "a", states.Failure, "2 of 2 checks fail")
	})
}

// A report to a check while Put changes its endpoint is not lost.
func TestReportDuringPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *Set[string]
		call := func() {
			if err := s.Report("a", "push", probe.Outcome{Result: probe.Failure, Output: "exit code 1"}); err != nil {
				t.Error(err)
			}
		}
		s, err := New[string](Config{Group: group.Config{Observers: []worker.Observer{&watcher{func() { call() }}}}})
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "a", Endpoint[string]{Checks: pushed("push")})
		report(t, s, "a", probe.Success)
		put(t, s, "a", Endpoint[string]{Checks: append(pushed("push"), Check{Name: "http", Probe: &group.Probe{Handler: handler(probe.Success), Spec: spec}})})
		expect(t, s, "a", states.Failure, "push: exit code 1")
		call = func() {}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A success of a probe ends the ejections of all checks that wait for it.
func TestActiveCheckEndsAllEjections(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		h := handler(probe.Failure)
		put(t, s, "a", Endpoint[string]{Rule: Rule{Mode: Any}, Checks: []Check{
			{Name: "traffic", Passive: &Passive{Consecutive: 1, UntilCheck: "http"}}, {Name: "other", Passive: &Passive{Consecutive: 1, UntilCheck: "http"}},
			{Name: "http", Probe: &group.Probe{Handler: h, Spec: spec}},
		}})
		if err := errors.Join(s.Observe("a", "traffic", false), s.Observe("a", "other", false)); err != nil {
			t.Fatal(err)
		}
		expect(t, s, "a", states.Failure, "3 of 3 checks fail")
		h.set(probe.Success)
		time.Sleep(10 * time.Second)
		expect(t, s, "a", states.Success, "")
		for _, c := range mustStatus(t, s, "a").Checks {
			if c.State != states.Success {
				t.Errorf("%s is %v", c.Name, c.State)
			}
		}
	})
}
