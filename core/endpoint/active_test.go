package endpoint

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// answers is a handler with a list of answers: s, w, f and e for an error. The last one stays.
type answers struct {
	list string
	next atomic.Int32
}

func (a *answers) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	i := min(int(a.next.Add(1)), len(a.list)) - 1
	switch a.list[i] {
	case 's':
		return probe.Outcome{Result: probe.Success}, nil
	case 'w':
		return probe.Outcome{Result: probe.Warning, Output: "warns"}, nil
	case 'f':
		return probe.Outcome{Result: probe.Failure, Output: "fails"}, nil
	default:
		return probe.Outcome{}, errors.New("no verdict")
	}
}

// letters returns the states of an endpoint after each of n ticks, 10 s apart: u, s, w and f.
func letters(t *testing.T, s *Set[string], key string, n int) string {
	t.Helper()
	var got []byte
	for range n {
		synctest.Wait()
		got = append(got, mustStatus(t, s, key).State.String()[0])
		time.Sleep(10 * time.Second)
	}
	return string(got)
}

func TestFailuresAmongLastResultsOfProbe(t *testing.T) {
	for name, c := range map[string]struct {
		th            Thresholds
		answers, want string
	}{
		"2 of 3":                          {Thresholds{Failures: 2, Of: 3}, "sfsfssfsf", "sssfssssf"},
		"3 of 5, not in a row":            {Thresholds{Failures: 3, Of: 5}, "sfsfsfsss", "sssssfsss"},
		"first results":                   {Thresholds{Failures: 2, Of: 3}, "fsff", "usff"},
		"one failure decides":             {Thresholds{Failures: 1, Of: 1}, "fsf", "fsf"},
		"a warning is a success":          {Thresholds{Failures: 2, Of: 2}, "wfff", "wsff"},
		"thresholds of Spec do not count": {Thresholds{Failures: 4, Of: 4}, "sffff", "ssssf"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
				put(t, s, "a", Endpoint[string]{Checks: []Check{{Name: "http", Thresholds: c.th, Probe: &group.Probe{Handler: &answers{list: c.answers}, Spec: spec}}}})
				if got := letters(t, s, "a", len(c.answers)); got != c.want {
					t.Errorf("after %s it is %s, want %s", c.answers, got, c.want)
				}
			})
		})
	}
}

// Ticks without a verdict, and a task that does not run, count as for every probe.
func TestThresholdsOfProbeAndTicksWithoutResult(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		task := &worker.Task{Subject: results.Subject{Container: "http"}}
		task.SetState(worker.Running("1", time.Now()))
		h := &answers{list: "sf" + "eee" + "eee" + "eee" + "ff"} // an error makes three attempts
		put(t, s, "a", Endpoint[string]{Checks: []Check{{Name: "http", Thresholds: Thresholds{Failures: 3, Of: 4}, Probe: &group.Probe{Task: task, Handler: h, Spec: spec}}}})
		if got, want := letters(t, s, "a", 7), "ssssuuf"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// The results of one run of a task do not count for the next one, and a change of the probe begins again.
func TestThresholdsOfProbeBeginAgain(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		task := &worker.Task{Subject: results.Subject{Container: "http"}}
		task.SetState(worker.Running("1", time.Now()))
		h := handler(probe.Success)
		e := Endpoint[string]{Checks: []Check{{Name: "http", Thresholds: Thresholds{Failures: 3, Of: 4}, Probe: &group.Probe{Task: task, Handler: h, Spec: spec}}}}
		put(t, s, "a", e)
		fail := func(begin func(), want string) {
			t.Helper()
			h.set(probe.Failure)
			time.Sleep(20 * time.Second) // two failures
			expect(t, s, "a", states.Success, "")
			begin()
			if got := letters(t, s, "a", 4); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			h.set(probe.Success)
			time.Sleep(50 * time.Second)
			expect(t, s, "a", states.Success, "")
		}
		fail(func() {}, "sfff")
		fail(func() { task.SetState(worker.Running("2", time.Now())) }, "sssf")
		fail(func() { e.Checks[0].Thresholds.Of = 5; put(t, s, "a", e) }, "sssf")
		fail(func() { put(t, s, "a", e) }, "sfff")
		fail(func() { e.Checks[0].Probe.Target.Host = "10.0.0.2"; put(t, s, "a", e) }, "sssf")
		task.SetState(worker.Stopped("2"))
		time.Sleep(10 * time.Second)
		expect(t, s, "a", states.Failure, "http")
	})
}

// A probe with Thresholds has the period Undecided while its last result is not its state.
func TestPeriodsFollowThresholdsOfProbe(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		h := handler(probe.Success)
		start := time.Now()
		put(t, s, "a", Endpoint[string]{Checks: []Check{{
			Name: "http", Unhealthy: 5 * time.Second, Undecided: time.Second, Thresholds: Thresholds{Failures: 2, Of: 3},
			Probe: &group.Probe{Handler: h, Spec: probe.Spec{Period: 2 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 9}},
		}}})
		time.Sleep(2500 * time.Millisecond) // ticks at 0, 2
		h.set(probe.Failure)                // 4 (success), 5 (failure), 10, 15
		time.Sleep(13 * time.Second)        // until 15.5
		h.set(probe.Success)                // 20 (2 of 3 still fail), 21 (success), 23
		time.Sleep(8 * time.Second)         // until 23.5
		if diff := cmp.Diff([]int{0, 2, 4, 5, 10, 15, 20, 21, 23}, seconds(h, start)); diff != "" {
			t.Errorf("attempts in seconds (-want +got)\n%s", diff)
		}
		expect(t, s, "a", states.Success, "")
	})
}

// seconds returns when a handler was asked, in seconds since start.
func seconds(h *scripted, start time.Time) (all []int) {
	for _, at := range h.asked() {
		all = append(all, int(at.Sub(start)/time.Second))
	}
	return all
}

// distances returns the times between the attempts of a handler.
func distances(h *scripted) (all []time.Duration) {
	times := h.asked()
	for i := 1; i < len(times); i++ {
		all = append(all, times[i].Sub(times[i-1]))
	}
	return all
}

func TestJitter(t *testing.T) {
	for name, c := range map[string]struct {
		jitter       float64
		timeout      time.Duration
		least, most  time.Duration
		distribution bool
	}{
		"a fifth":                  {0.2, time.Second, 8 * time.Second, 12 * time.Second, true},
		"down to the timeout":      {0.5, 8 * time.Second, 8 * time.Second, 12 * time.Second, true},
		"all, without a timeout":   {1, -1, time.Millisecond, 20*time.Second - time.Millisecond, true},
		"timeout is the period":    {0.5, 10 * time.Second, 10 * time.Second, 10 * time.Second, false},
		"timeout above the period": {0.5, 15 * time.Second, 10 * time.Second, 10 * time.Second, false},
		"none":                     {0, time.Second, 10 * time.Second, 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
				const ticks = 3000
				h := handler(probe.Success)
				put(t, s, "a", Endpoint[string]{Checks: []Check{{
					Name: "http", Probe: &group.Probe{Handler: h, Spec: probe.Spec{Period: 10 * time.Second, Timeout: c.timeout, Jitter: c.jitter}},
				}}})
				time.Sleep(ticks * 10 * time.Second)
				all := distances(h)
				if n := len(all); n < ticks*94/100 || n > ticks*106/100 { // six standard deviations of the widest jitter
					t.Errorf("%d ticks, want about %d", n, ticks)
				}
				least, most := slices.Min(all), slices.Max(all)
				if least < c.least || most > c.most {
					t.Errorf("the distances are from %v to %v, want %v to %v", least, most, c.least, c.most)
				}
				if margin := (c.most - c.least) / 20; c.distribution && (least > c.least+margin || most < c.most-margin) {
					t.Errorf("the distances are from %v to %v only", least, most)
				}
			})
		})
	}
}

// Jitter is a share of the period that the state has chosen, and leaves the period as it is.
func TestJitterOfUnhealthyPeriod(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		h, spec := handler(probe.Failure), spec
		spec.Jitter = 0.1
		put(t, s, "a", Endpoint[string]{Checks: []Check{{
			Name: "http", Unhealthy: time.Minute, Probe: &group.Probe{Handler: h, Spec: spec},
		}}})
		time.Sleep(500 * time.Minute)
		all := distances(h)
		if least, most := slices.Min(all), slices.Max(all); least < 54*time.Second || most > 66*time.Second || most-least < 6*time.Second || len(all) < 490 || len(all) > 510 {
			t.Errorf("%d distances from %v to %v", len(all), least, most)
		}
		if p, ok := s.group.Current(s.id("a", "http")); !ok || p.Spec.Period != time.Minute {
			t.Errorf("the period is %v", p.Spec.Period)
		}
	})
}

// StartPeriod begins again for a check whose probe has changed, and for no other.
func TestStartPeriodBeginsAgainForChangedProbe(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		handlers := map[string]*scripted{"changed": handler(probe.Success), "same": handler(probe.Success)}
		e := Endpoint[string]{Checks: []Check{
			{Name: "changed", StartPeriod: 25 * time.Second, Probe: &group.Probe{Handler: handlers["changed"], Spec: spec}},
			{Name: "same", StartPeriod: 25 * time.Second, Unhealthy: 7 * time.Second, Probe: &group.Probe{Handler: handlers["same"], Spec: spec}},
		}}
		put(t, s, "a", e)
		expect(t, s, "a", states.Success, "")
		for _, h := range handlers {
			h.set(probe.Failure)
		}
		e.Checks = slices.Clone(e.Checks)
		e.Checks[0].Probe = &group.Probe{Handler: handlers["changed"], Spec: spec, Target: probe.Target{Host: "10.0.0.2"}}
		e.Rule = Rule{Mode: Any}
		put(t, s, "a", e)
		expect(t, s, "a", states.Success, "")
		time.Sleep(10 * time.Second)
		expect(t, s, "a", states.Unknown, "1 of 2 checks are unknown: changed: it is failure")
		if st := mustStatus(t, s, "a"); st.Checks[0].State != states.Failure || st.Checks[1].State != states.Failure || st.Checks[0].Next.IsZero() || !st.Checks[1].Next.IsZero() {
			t.Errorf("%+v", st.Checks)
		}
		e.Checks[0].Weight, e.Checks[0].Probe.Tag = 2, "tag" // not what is probed
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

		handlers["changed"].set(probe.Success)
		time.Sleep(10 * time.Second)
		e.Checks[0].Probe = &group.Probe{Handler: handlers["changed"], Spec: spec, Target: probe.Target{Host: "10.0.0.3"}}
		put(t, s, "a", e)
		time.Sleep(10 * time.Second) // a success in the new start period, without a change of the state
		handlers["changed"].set(probe.Failure)
		time.Sleep(10 * time.Second)
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
