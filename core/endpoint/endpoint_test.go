package endpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// scripted is a handler whose result the test sets, and which notes when it was asked.
type scripted struct {
	result atomic.Int32
	mu     sync.Mutex
	times  []time.Time
}

// asked returns when the handler was asked.
func (h *scripted) asked() []time.Time {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.times)
}

func (h *scripted) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	h.mu.Lock()
	h.times = append(h.times, time.Now())
	h.mu.Unlock()
	r := probe.Result(h.result.Load())
	return probe.Outcome{Result: r, Output: "it is " + r.String()}, nil
}

func (h *scripted) set(r probe.Result) { h.result.Store(int32(r)) }

func handler(r probe.Result) *scripted {
	h := new(scripted)
	h.set(r)
	return h
}

// bubble runs a test in virtual time with a set, which it shuts down.
func bubble(t *testing.T, cfg Config, test func(t *testing.T, s *Set[string])) {
	synctest.Test(t, func(t *testing.T) {
		cfg.Group.Compat |= probe.CompatExactTimer | probe.CompatHerd
		s, err := New[string](cfg)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // first ticks are no longer spread
		test(t, s)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func put(t *testing.T, s *Set[string], key string, e Endpoint[string]) {
	t.Helper()
	if err := s.Put(key, e); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// expect compares the state of an endpoint, and a part of its reason.
func expect(t *testing.T, s *Set[string], key string, state states.State, reason string) {
	t.Helper()
	synctest.Wait()
	got, ok := s.Status(key)
	if !ok || got.State != state || !strings.Contains(got.Reason, reason) || reason == "" && got.Reason != "" {
		t.Errorf("at %v: %s is %v (%s), want %v (%s)", time.Now().Format("15:04:05.000"), key, got.State, got.Reason, state, reason)
	}
}

var spec = probe.Spec{Period: 10 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 1}

func TestChecksDecideEndpoint(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		a, b, c := handler(probe.Success), handler(probe.Success), handler(probe.Success)
		put(t, s, "shop", Endpoint[string]{Rule: Rule{AtLeast, 2}, Checks: []Check{
			{Name: "a", Probe: &group.Probe{Handler: a, Spec: spec}}, {Name: "b", Probe: &group.Probe{Handler: b, Spec: spec}}, {Name: "c", Probe: &group.Probe{Handler: c, Spec: spec}},
		}})
		expect(t, s, "shop", states.Success, "")
		a.set(probe.Failure)
		time.Sleep(10 * time.Second)
		expect(t, s, "shop", states.Success, "")
		b.set(probe.Warning)
		time.Sleep(10 * time.Second)
		expect(t, s, "shop", states.Warning, "1 of 3 checks warn: b: it is warning")
		c.set(probe.Failure)
		time.Sleep(10 * time.Second)
		expect(t, s, "shop", states.Failure, "2 of 3 checks fail: a: it is failure; c: it is failure")
		status, _ := s.Status("shop")
		if diff := cmp.Diff([]string{"a", "c"}, status.Deciding); diff != "" || status.Usable {
			t.Errorf("usable %t, deciding (-want +got)\n%s", status.Usable, diff)
		}
		if e, ok := s.Explain("shop", "c"); !ok || e.Last == nil || e.Last.Output != "it is failure" {
			t.Errorf("Explain: %+v, %t", e, ok)
		}
	})
}

// Two checks of one address have results of their own.
//
// Reported as caddy 7870.
func TestTwoChecksOfOneAddressAreIndependent(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		target := probe.Target{Host: "10.0.0.1", Port: 80}
		ready, live := handler(probe.Failure), handler(probe.Success)
		put(t, s, "ready", Endpoint[string]{Checks: []Check{{Name: "http", Probe: &group.Probe{Handler: ready, Spec: spec, Target: target}}}})
		put(t, s, "live", Endpoint[string]{Checks: []Check{{Name: "http", Probe: &group.Probe{Handler: live, Spec: spec, Target: target}}}})
		expect(t, s, "ready", states.Failure, "http: it is failure")
		expect(t, s, "live", states.Success, "")
	})
}

// A check of consul with a TTL becomes critical when the TTL ends, to the second.
func TestTTLExpiresExactly(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "job", Endpoint[string]{Checks: []Check{{Name: "ttl", Push: &Push{TTL: 30 * time.Second}}}})
		expect(t, s, "job", states.Unknown, "ttl")
		if err := s.Report("job", "ttl", probe.Outcome{Result: probe.Success}); err != nil {
			t.Fatal(err)
		}
		expect(t, s, "job", states.Success, "")
		time.Sleep(30*time.Second - 1)
		expect(t, s, "job", states.Success, "")
		time.Sleep(time.Nanosecond)
		expect(t, s, "job", states.Failure, "ttl: no report for 30s")
		if err := s.Report("job", "ttl", probe.Outcome{Result: probe.Warning, Output: "disk is filling"}); err != nil {
			t.Fatal(err)
		}
		expect(t, s, "job", states.Warning, "ttl: disk is filling")
		time.Sleep(20 * time.Second)
		if err := s.Report("job", "ttl", probe.Outcome{Result: probe.Failure, Output: "exit code 1"}); err != nil {
			t.Fatal(err)
		}
		expect(t, s, "job", states.Failure, "ttl: exit code 1")
		if err := s.Report("job", "nosuch", probe.Outcome{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("got the error %v", err)
		}
	})
}

// As healthchecks: a job at 3:30 in Riga has an hour of grace, also on the day when 3:30 does not exist.
func TestScheduleOverChangeOfClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New[string](Config{})
		if err != nil {
			t.Fatal(err)
		}
		riga := zone(t, "Europe/Riga")
		time.Sleep(time.Until(time.Date(2024, 3, 30, 4, 0, 0, 0, riga)))
		nightly, err := ParseCron("30 3 * * *", riga)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "backup", Endpoint[string]{Checks: []Check{{Name: "job", Push: &Push{Schedule: nightly, Grace: time.Hour}}}})
		if err := s.Report("backup", "job", probe.Outcome{Result: probe.Success}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(time.Date(2024, 3, 31, 0, 0, 0, 0, time.UTC))) // 2:00 in Riga
		expect(t, s, "backup", states.Success, "")
		time.Sleep(2*time.Hour - 1) // the job runs at 1:00 UTC, when the clock goes to 4:00
		expect(t, s, "backup", states.Success, "")
		time.Sleep(time.Nanosecond)
		expect(t, s, "backup", states.Failure, "job: no report for the time 2024-03-31 04:00 EEST")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Reported as etherlabs health 28; health-go 224.
func TestRunThatHangsFails(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "backup", Endpoint[string]{Checks: []Check{{Name: "job", Push: &Push{TTL: 24 * time.Hour, MaxRun: time.Hour}}}})
		if err := errors.Join(s.Report("backup", "job", probe.Outcome{Result: probe.Success}), s.Started("backup", "job")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - 1)
		expect(t, s, "backup", states.Success, "")
		time.Sleep(time.Nanosecond)
		expect(t, s, "backup", states.Failure, "job: has run for 1h0m0s without a report")
		if err := s.Report("backup", "job", probe.Outcome{Result: probe.Success}); err != nil {
			t.Fatal(err)
		}
		expect(t, s, "backup", states.Success, "")
	})
}

// What an earlier agent knew of a pushed check goes on: the deadline counts from the last report.
func TestPushStateOutlivesSet(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		last := &PushState{Report: time.Now().Add(-20 * time.Second)}
		put(t, s, "job", Endpoint[string]{Checks: []Check{{Name: "ttl", Push: &Push{TTL: 30 * time.Second, Last: last}}}})
		time.Sleep(10*time.Second - 1)
		expect(t, s, "job", states.Unknown, "ttl")
		time.Sleep(time.Nanosecond)
		expect(t, s, "job", states.Failure, "no report for 30s")
	})
}

// As haproxy's "inter 2s fastinter 1s downinter 5s rise 2 fall 3".
func TestPeriodsFollowState(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		h := handler(probe.Success)
		start := time.Now()
		put(t, s, "server", Endpoint[string]{Checks: []Check{{
			Name: "http", Probe: &group.Probe{Handler: h, Spec: probe.Spec{Period: 2 * time.Second, Timeout: time.Second, SuccessThreshold: 2, FailureThreshold: 3}},
			Unhealthy: 5 * time.Second, Undecided: time.Second,
		}}})
		time.Sleep(4500 * time.Millisecond) // ticks at 0, 1 (rise), 3
		h.set(probe.Failure)                // 5 (begins to fall), 6, 7 (down), 12, 17
		time.Sleep(13 * time.Second)        // until 17.5
		h.set(probe.Success)                // 22 (begins to rise), 23 (up), 25
		time.Sleep(8 * time.Second)         // until 25.5
		var got []int
		for _, at := range h.asked() {
			got = append(got, int(at.Sub(start)/time.Second))
		}
		if diff := cmp.Diff([]int{0, 1, 3, 5, 6, 7, 12, 17, 22, 23, 25}, got); diff != "" {
			t.Errorf("attempts in seconds (-want +got)\n%s", diff)
		}
		expect(t, s, "server", states.Success, "")
	})
}

// As the start period of moby's health checks: failures in it do not count, and a success ends it.
func TestFailuresInStartPeriodDoNotCount(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		slow, quick := handler(probe.Failure), handler(probe.Failure)
		for key, h := range map[string]*scripted{"slow": slow, "quick": quick} {
			put(t, s, key, Endpoint[string]{Checks: []Check{{Name: "http", StartPeriod: 25 * time.Second, Probe: &group.Probe{Handler: h, Spec: spec}}}})
		}
		expect(t, s, "slow", states.Unknown, "http: it is failure")
		quick.set(probe.Success)
		time.Sleep(10 * time.Second)
		expect(t, s, "quick", states.Success, "")
		quick.set(probe.Failure)
		time.Sleep(10 * time.Second)
		expect(t, s, "quick", states.Failure, "http: it is failure")
		time.Sleep(5*time.Second - 1)
		expect(t, s, "slow", states.Unknown, "http: it is failure")
		time.Sleep(time.Nanosecond)
		expect(t, s, "slow", states.Failure, "http: it is failure")
	})
}

func traffic5() []Check {
	return []Check{{Name: "traffic", Passive: &Passive{Consecutive: 5}}}
}

func observe(t *testing.T, s *Set[string], key string, ok bool, n int) {
	t.Helper()
	for range n {
		if err := s.Observe(key, "traffic", ok); err != nil {
			t.Fatal(err)
		}
	}
}

// As Envoy's consecutive_5xx with its defaults: five failures eject for 30 s, and the next ejection lasts 60
// s.
func TestConsecutiveFailuresEject(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "a", Endpoint[string]{Checks: traffic5()})
		expect(t, s, "a", states.Success, "")
		observe(t, s, "a", false, 4)
		observe(t, s, "a", true, 1)
		observe(t, s, "a", false, 4)
		expect(t, s, "a", states.Success, "")
		observe(t, s, "a", false, 1)
		expect(t, s, "a", states.Failure, "traffic: ejected after 5 failures in a row")
		time.Sleep(30*time.Second - 1)
		expect(t, s, "a", states.Failure, "ejected")
		time.Sleep(time.Nanosecond)
		expect(t, s, "a", states.Success, "")
		observe(t, s, "a", false, 5)
		time.Sleep(60*time.Second - 1)
		expect(t, s, "a", states.Failure, "ejected")
		time.Sleep(time.Nanosecond)
		expect(t, s, "a", states.Success, "")
		time.Sleep(10 * time.Minute)
		observe(t, s, "a", false, 5)
		time.Sleep(30 * time.Second) // it was well for a long time
		expect(t, s, "a", states.Success, "")
	})
}

func TestRatioOverWindowEjects(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "a", Endpoint[string]{Checks: []Check{{Name: "traffic", Passive: &Passive{Ratio: 0.5, Window: 10 * time.Second, Least: 10}}}})
		observe(t, s, "a", false, 9)
		expect(t, s, "a", states.Success, "")
		time.Sleep(15 * time.Second) // they are forgotten
		observe(t, s, "a", false, 9)
		observe(t, s, "a", true, 10)
		if status, _ := s.Status("a"); status.Checks[0].Outcomes != 19 || status.Checks[0].Failures != 9 {
			t.Errorf("%+v, want 9 failures in 19 outcomes", status.Checks[0])
		}
		observe(t, s, "a", false, 1)
		expect(t, s, "a", states.Failure, "at least 50 % of the outcomes within 10s fail")
		observe(t, s, "a", false, 2)
		time.Sleep(10 * time.Second) // they are forgotten
		if status, _ := s.Status("a"); status.Checks[0].Outcomes != 0 || status.Checks[0].Failures != 0 {
			t.Errorf("%+v, want no outcomes", status.Checks[0])
		}
	})
}

// As Envoy's max_ejection_percent and its panic threshold.
func TestPoolBoundsEjections(t *testing.T) {
	bubble(t, Config{Pools: map[string]Pool{"web": {MaxEjected: 0.5, Panic: 0.6}}}, func(t *testing.T, s *Set[string]) {
		for i := range 5 {
			put(t, s, fmt.Sprint(i), Endpoint[string]{Pool: "web", Checks: traffic5()})
		}
		for i := range 4 {
			observe(t, s, fmt.Sprint(i), false, 5)
		}
		for i, want := range []states.State{states.Failure, states.Failure, states.Success, states.Success, states.Success} {
			reason := ""
			if want == states.Failure {
				reason = "ejected"
			}
			expect(t, s, fmt.Sprint(i), want, reason)
		}
		if status, _ := s.Status("2"); status.Checks[0].Overflow != 1 {
			t.Errorf("%d ejections were not allowed, want 1", status.Checks[0].Overflow)
		}
		keys, panics := s.Usable("web")
		if len(keys) != 3 || panics {
			t.Errorf("%v are usable, panic %t; want three", keys, panics)
		}
		if err := s.Force("3", Forced{Mode: Drained}); err != nil {
			t.Fatal(err)
		}
		keys, panics = s.Usable("web") // 2 of 4 that are not drained: below 0.6
		slices.Sort(keys)
		if diff := cmp.Diff([]string{"0", "1", "2", "4"}, keys); diff != "" || !panics {
			t.Errorf("panic %t, and usable (-want +got)\n%s", panics, diff)
		}
		for i := range 5 { // the pool has the same endpoints, of which two are ejected
			put(t, s, fmt.Sprint(i), Endpoint[string]{Pool: "web", Checks: traffic5()})
		}
		observe(t, s, "4", false, 5)
		expect(t, s, "4", states.Success, "")
		if err := s.Remove("0"); err != nil {
			t.Fatal(err)
		}
		observe(t, s, "4", false, 5)
		expect(t, s, "4", states.Failure, "ejected")
	})
}

// An ejection ends with the success of an active check, not with time.
func TestActiveCheckEndsEjection(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		h := handler(probe.Failure)
		put(t, s, "a", Endpoint[string]{Rule: Rule{AtLeast, 1}, Checks: []Check{
			{Name: "traffic", Passive: &Passive{Consecutive: 2, UntilCheck: "http"}}, {Name: "http", Probe: &group.Probe{Handler: h, Spec: spec}},
		}})
		observe(t, s, "a", false, 2)
		expect(t, s, "a", states.Failure, "2 of 2 checks fail: traffic: ejected after 2 failures in a row; http: it is failure")
		time.Sleep(10 * time.Minute)
		expect(t, s, "a", states.Failure, "ejected")
		h.set(probe.Success)
		time.Sleep(10 * time.Second)
		expect(t, s, "a", states.Success, "")
		if status, _ := s.Status("a"); status.Checks[0].State != states.Success {
			t.Errorf("the passive check is %v", status.Checks[0].State)
		}
	})
}

func pushed(names ...string) (checks []Check) {
	for _, name := range names {
		checks = append(checks, Check{Name: name, Push: &Push{TTL: 1000 * time.Hour}})
	}
	return checks
}

func report(t *testing.T, s *Set[string], key string, r probe.Result) {
	t.Helper()
	if err := s.Report(key, "push", probe.Outcome{Result: r, Output: r.String()}); err != nil {
		t.Fatal(err)
	}
}

func TestFailureOfDependencyIsUnknown(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "page", Endpoint[string]{Checks: pushed("push"), DependsOn: []string{"shop"}}) // before its dependency
		put(t, s, "shop", Endpoint[string]{Checks: pushed("push"), DependsOn: []string{"database"}})
		put(t, s, "database", Endpoint[string]{Checks: pushed("push")})
		for _, key := range []string{"page", "shop", "database"} {
			report(t, s, key, probe.Success)
		}
		report(t, s, "page", probe.Failure)
		expect(t, s, "page", states.Failure, "push: failure")
		report(t, s, "database", probe.Failure)
		expect(t, s, "shop", states.Success, "") // it works without
		expect(t, s, "page", states.Failure, "push: failure")
		report(t, s, "shop", probe.Failure)
		expect(t, s, "shop", states.Unknown, "depends on database, which fails")
		expect(t, s, "page", states.Unknown, "depends on shop, which fails")
		report(t, s, "database", probe.Success)
		expect(t, s, "shop", states.Failure, "push: failure")
		expect(t, s, "page", states.Unknown, "depends on shop, which fails")
		if err := s.Remove("shop"); err != nil {
			t.Fatal(err)
		}
		expect(t, s, "page", states.Failure, "push: failure")
	})
}

func TestCyclesAreErrors(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "a", Endpoint[string]{Checks: pushed("push"), DependsOn: []string{"b"}})
		put(t, s, "b", Endpoint[string]{Checks: pushed("push"), DependsOn: []string{"c"}})
		err := s.Put("c", Endpoint[string]{Checks: pushed("push"), DependsOn: []string{"x", "a"}})
		if e, ok := errors.AsType[*group.FieldError](err); !ok || e.Field != "DependsOn" || e.Problem != "a depends on this endpoint" {
			t.Errorf("got the error %v", err)
		}
		if _, ok := s.Status("c"); ok {
			t.Error("an endpoint that was refused is in the set")
		}
	})
}

// IsUsable is the field of Status in every state.
func expectUsable(t *testing.T, s *Set[string], key string, want bool) {
	t.Helper()
	if st, _ := s.Status(key); st.Usable != want || s.IsUsable(key) != want {
		t.Errorf("%s: usable %v and %v, want %v", key, st.Usable, s.IsUsable(key), want)
	}
}

func TestForcedStates(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "a", Endpoint[string]{Checks: pushed("push")})
		put(t, s, "child", Endpoint[string]{Checks: pushed("push"), DependsOn: []string{"a"}})
		report(t, s, "a", probe.Success)
		report(t, s, "child", probe.Failure)
		force := func(f Forced) {
			if err := s.Force("a", f); err != nil {
				t.Fatal(err)
			}
		}
		force(Forced{Mode: Down, By: "ann", Why: "move", Until: time.Now().Add(time.Hour)})
		expect(t, s, "a", states.Failure, "down by ann: move")
		expect(t, s, "child", states.Unknown, "depends on a")
		report(t, s, "a", probe.Failure)
		if st := mustStatus(t, s, "a"); len(st.Deciding) != 0 {
			t.Errorf("%v decide a forced state", st.Deciding)
		}
		time.Sleep(time.Hour)
		expect(t, s, "a", states.Failure, "push: failure")
		force(Forced{Mode: Up})
		expect(t, s, "a", states.Success, "up")
		expect(t, s, "child", states.Failure, "push: failure")
		force(Forced{Mode: Drained, Until: time.Now().Add(time.Minute)})
		expect(t, s, "a", states.Failure, "drained")
		report(t, s, "a", probe.Success)
		expect(t, s, "a", states.Success, "drained")
		expectUsable(t, s, "a", false)
		if st, _ := s.Status("a"); st.Forced == nil {
			t.Errorf("%+v", st)
		}
		if err := s.Release("a"); err != nil {
			t.Fatal(err)
		}
		expect(t, s, "a", states.Success, "")
		expectUsable(t, s, "a", true)
		expectUsable(t, s, "child", false)
		expectUsable(t, s, "none", false)
		time.Sleep(time.Hour)
		expect(t, s, "a", states.Success, "")
	})
}

func TestInitialState(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "a", Endpoint[string]{Checks: pushed("push"), Initial: states.Success})
		expect(t, s, "a", states.Success, "")
		report(t, s, "a", probe.Failure)
		expect(t, s, "a", states.Failure, "push: failure")
		report(t, s, "a", probe.Unknown)
		expect(t, s, "a", states.Unknown, "push: unknown") // it has decided before
	})
}

func TestSubscribeMergesChangesOfSlowReader(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "a", Endpoint[string]{Checks: pushed("push")})
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		next := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for c := range s.Subscribe(ctx) {
				got = append(got, fmt.Sprintf("%s %v %v %q removed=%t", c.Key, c.From, c.To, c.Reason, c.Removed))
				<-next
			}
		}()
		synctest.Wait()
		report(t, s, "a", probe.Success)
		report(t, s, "a", probe.Failure)
		report(t, s, "a", probe.Failure)
		next <- struct{}{}
		synctest.Wait()
		if err := s.Remove("a"); err != nil {
			t.Error(err)
		}
		next <- struct{}{}
		synctest.Wait()
		close(next)
		cancel()
		<-done
		want := []string{`a unknown unknown "push" removed=false`, `a unknown failure "push: failure" removed=false`, `a failure unknown "" removed=true`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

// Put keeps what a check knows, adds and removes others, and changes nothing after an error.
func TestPutKeepsChecks(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		h := handler(probe.Failure)
		e := Endpoint[string]{Rule: Rule{Mode: Any}, Checks: append(pushed("push"), Check{Name: "http", Probe: &group.Probe{Handler: h, Spec: spec}})}
		put(t, s, "a", e)
		report(t, s, "a", probe.Success)
		before, attempts := mustStatus(t, s, "a"), len(h.asked())
		e.Rule = Rule{}
		e.Checks[1].Weight = 3
		put(t, s, "a", e)
		expect(t, s, "a", states.Failure, "1 of 2 checks fail: http: it is failure")
		if got := mustStatus(t, s, "a"); got.Checks[0].State != states.Success || !got.Checks[1].Since.Equal(before.Checks[1].Since) {
			t.Errorf("the checks have forgotten their states: %+v", got.Checks)
		}
		if len(h.asked()) != attempts {
			t.Errorf("the probe has begun again: %d attempts, want %d", len(h.asked()), attempts)
		}
		bad := e
		bad.Checks = append(slices.Clone(e.Checks[:1]), Check{Name: "tcp", Probe: &group.Probe{Handler: handler(probe.Success), Spec: probe.Spec{Period: -1}}})
		if err := s.Put("a", bad); err == nil {
			t.Error("a negative period is accepted")
		}
		expect(t, s, "a", states.Failure, "1 of 2 checks fail: http: it is failure")
		time.Sleep(10 * time.Second)
		if len(h.asked()) != attempts+1 {
			t.Errorf("after an error: %d attempts, want %d", len(h.asked()), attempts+1)
		}
		put(t, s, "a", Endpoint[string]{Checks: pushed("push")})
		expect(t, s, "a", states.Success, "")
		time.Sleep(time.Minute)
		if len(h.asked()) != attempts+1 {
			t.Errorf("a probe that is gone makes attempts: %d", len(h.asked()))
		}
	})
}

func mustStatus(t *testing.T, s *Set[string], key string) Status {
	t.Helper()
	st, ok := s.Status(key)
	if !ok {
		t.Fatalf("there is no endpoint %s", key)
	}
	return st
}

func TestInvalidEndpointsAreRefused(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		h := handler(probe.Success)
		for want, e := range map[string]Endpoint[string]{
			"Checks has 0 checks":                 {},
			"Checks[0].Name is empty":             {Checks: pushed("")},
			`Checks[1].Name "a" is the name`:      {Checks: pushed("a", "a")},
			"Checks[0].Probe exactly one":         {Checks: []Check{{Name: "a"}}},
			"Checks[0].Weight is -1":              {Checks: []Check{{Name: "a", Weight: -1, Push: &Push{TTL: 1}}}},
			"Checks[0].Push exactly one of TTL":   {Checks: []Check{{Name: "a", Push: &Push{}}}},
			"Checks[0].Push Failures must be":     {Checks: []Check{{Name: "a", Push: &Push{TTL: 1, Thresholds: Thresholds{Failures: 5, Of: 3}}}}},
			"Checks[0].Passive Consecutive or":    {Checks: []Check{{Name: "a", Passive: &Passive{}}}},
			"Checks[0].Passive.UntilCheck \"b\"":  {Checks: []Check{{Name: "a", Passive: &Passive{Consecutive: 1, UntilCheck: "b"}}}},
			"Checks[0].Unhealthy is only":         {Checks: []Check{{Name: "a", Unhealthy: time.Second, Push: &Push{TTL: 1}}}},
			"Probe.Spec.Jitter is 1.5":            {Checks: []Check{{Name: "a", Probe: &group.Probe{Handler: h, Spec: probe.Spec{Jitter: 1.5}}}}},
			"Checks[0].Thresholds is only":        {Checks: []Check{{Name: "a", Thresholds: Thresholds{Failures: 1, Of: 2}, Push: &Push{TTL: 1}}}},
			"Checks[0].Thresholds must have Of":   {Checks: []Check{{Name: "a", Thresholds: Thresholds{Failures: 1}, Probe: &group.Probe{Handler: h}}}},
			"Checks[0].Thresholds Failures must":  {Checks: []Check{{Name: "a", Thresholds: Thresholds{Failures: 3, Of: 2}, Probe: &group.Probe{Handler: h}}}},
			"Rule.Min is 3, and must be from 1":   {Rule: Rule{AtLeast, 3}, Checks: pushed("a", "b")},
			"Rule.Min is only for AtLeast":        {Rule: Rule{Any, 1}, Checks: pushed("a")},
			"Rule.Mode is 9":                      {Rule: Rule{Mode: 9}, Checks: pushed("a")},
			`Pool "x" is none of Config.Pools`:    {Pool: "x", Checks: pushed("a")},
			"DependsOn names the endpoint itself": {DependsOn: []string{"key"}, Checks: pushed("a")},
			"Initial is no state":                 {Initial: 7, Checks: pushed("a")},
			"Probe.Spec.Period":                   {Checks: []Check{{Name: "a", Probe: &group.Probe{Handler: h, Spec: probe.Spec{Period: -1}}}}},
			"Probe.Handler is nil":                {Checks: []Check{{Name: "a", Probe: &group.Probe{}}}},
		} {
			if err := s.Put("key", e); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got the error %v, want %q", err, want)
			}
		}
		if len(s.Keys()) != 0 {
			t.Errorf("the set has %v", s.Keys())
		}
	})
}

func TestStreak(t *testing.T) {
	const s, f, w = states.Success, states.Failure, states.Warning
	for name, c := range map[string]struct {
		t       Thresholds
		results []states.State
		want    []states.State
	}{
		"each decides":          {Thresholds{}, []states.State{s, f, w}, []states.State{s, f, w}},
		"two and three":         {Thresholds{Successes: 2, Failures: 3}, []states.State{s, s, f, f, s, f, f, f, s, s}, []states.State{0, s, s, s, s, s, s, f, f, s}},
		"warning is a success":  {Thresholds{Successes: 2}, []states.State{s, w, s}, []states.State{0, w, s}},
		"2 failures of 3":       {Thresholds{Failures: 2, Of: 3}, []states.State{s, f, s, f, s, s, f}, []states.State{s, s, s, f, s, s, s}},
		"1 failure of 1":        {Thresholds{Failures: 1, Of: 1}, []states.State{f, s}, []states.State{f, s}},
		"first failure of many": {Thresholds{Failures: 2, Of: 3}, []states.State{f, f}, []states.State{0, f}},
	} {
		var k streak
		state := states.Unknown
		for i, r := range c.results {
			if state = k.add(c.t, state, r); state != c.want[i] {
				t.Errorf("%s: after %v it is %v, want %v", name, c.results[:i+1], state, c.want[i])
			}
		}
	}
}

func TestStatusHasRuns(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		h := handler(probe.Warning)
		put(t, s, "shop", Endpoint[string]{Checks: []Check{
			{Name: "http", Probe: &group.Probe{Handler: h, Spec: spec}},
			{Name: "backup", Push: &Push{TTL: time.Hour, Thresholds: Thresholds{Failures: 3}}},
			{Name: "traffic", Passive: &Passive{Consecutive: 3}},
		}})
		runs := func(want ...int) {
			t.Helper()
			synctest.Wait()
			status, _ := s.Status("shop")
			var got []int
			for _, c := range status.Checks {
				got = append(got, c.Run)
			}
			if !slices.Equal(got, want) {
				t.Errorf("runs %v, want %v", got, want)
			}
		}
		runs(1, 0, 0)
		results := func(r probe.Result) {
			h.set(r)
			time.Sleep(spec.Period)
			if err := errors.Join(s.Report("shop", "backup", probe.Outcome{Result: r}), s.Observe("shop", "traffic", r != probe.Failure)); err != nil {
				t.Fatal(err)
			}
		}
		results(probe.Success)
		runs(2, 1, 0)
		results(probe.Failure)
		runs(1, 1, 1)
		results(probe.Failure)
		runs(2, 2, 2)
		results(probe.Failure)
		runs(3, 3, 0) // ejected
		results(probe.Warning)
		runs(1, 1, 0)
	})
}

func TestShutdownEndsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New[int](Config{})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range s.Subscribe(t.Context()) {
			}
		}()
		synctest.Wait()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-ended
		if err := s.Put(1, Endpoint[int]{Checks: pushed("a")}); !errors.Is(err, ErrClosed) {
			t.Errorf("got the error %v", err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// calls is a handler whose Release calls a set.
type calls struct {
	scripted
	release func()
}

// Release implements [probe.Releaser].
func (c *calls) Release() { c.release() }

// watcher is an observer that calls a set when a probe is added and when it ends.
type watcher struct{ call func() }

func (w *watcher) Observe(worker.Info) worker.ProbeObserver {
	w.call()
	return w
}
func (*watcher) Tick(*worker.Tick)              {}
func (*watcher) Skipped(worker.SkipReason, int) {}
func (w *watcher) Close()                       { w.call() }

// What a set calls may call all of its methods.
func TestCallbacksMayCallSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *Set[string]
		var errs []error
		call := func() {
			if s == nil {
				return
			}
			s.Status("a")
			s.Usable("")
			s.Keys()
			_ = s.Report("other", "push", probe.Outcome{Result: probe.Success})
			_ = s.Force("other", Forced{Mode: Drained})
			errs = append(errs, s.Remove("a"), s.Put("other", Endpoint[string]{Checks: pushed("push")}), s.Remove("third"))
		}
		s, err := New[string](Config{Group: group.Config{Observers: []worker.Observer{&watcher{call}}}})
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "a", Endpoint[string]{Checks: []Check{{Name: "http", Probe: &group.Probe{Handler: &calls{release: call}, Spec: spec}}}})
		if err := s.Remove("a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(errs) < 6 || !errors.Is(errs[0], ErrBusy) || errs[1] != nil || errs[2] != nil {
			t.Errorf("the calls had the errors %v", errs)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Concurrent changes of several endpoints with cycles in wait leave none.
func TestConcurrentPutsMakeNoCycle(t *testing.T) {
	for range 50 {
		s, err := New[int](Config{})
		if err != nil {
			t.Fatal(err)
		}
		var puts sync.WaitGroup
		var refused atomic.Int32
		for i := range 3 {
			puts.Go(func() {
				if err := s.Put(i, Endpoint[int]{Checks: pushed("push"), DependsOn: []int{(i + 1) % 3}}); err != nil {
					refused.Add(1)
				}
			})
		}
		puts.Wait()
		if refused.Load() != 1 {
			t.Fatalf("%d of three endpoints in a circle were refused, want 1", refused.Load())
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A change of the period by a tick never undoes a Put.
func TestPeriodChangesKeepPut(t *testing.T) {
	s, err := New[string](Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := handler(probe.Failure)
	var want time.Duration
	for i := range 300 {
		want = time.Duration(i+1) * time.Second
		h.set([...]probe.Result{probe.Failure, probe.Success}[i%2])
		err := s.Put("a", Endpoint[string]{Checks: []Check{{
			Name: "http", Unhealthy: time.Millisecond, Undecided: 2 * time.Millisecond,
			Probe: &group.Probe{Handler: h, Spec: probe.Spec{Period: time.Millisecond, Timeout: want, SuccessThreshold: 2, FailureThreshold: 2}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if now, ok := s.group.Current(s.id("a", "http")); !ok || now.Spec.Timeout != want {
			t.Fatalf("after Put %d the timeout is %v, want %v", i, now.Spec.Timeout, want)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, ok := s.group.Current(s.id("a", "http")); ok && now.Spec.Timeout != want {
		t.Errorf("the timeout is %v, want %v", now.Spec.Timeout, want)
	}
}

// A drained endpoint with the same state and reason still passes on that it fails.
func TestDependentsOfDrainedEndpoint(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		put(t, s, "database", Endpoint[string]{Checks: pushed("push")})
		put(t, s, "shop", Endpoint[string]{Checks: pushed("push"), DependsOn: []string{"database"}})
		put(t, s, "page", Endpoint[string]{Checks: pushed("push"), DependsOn: []string{"shop"}})
		if err := s.Force("shop", Forced{Mode: Drained}); err != nil {
			t.Fatal(err)
		}
		report(t, s, "page", probe.Failure)
		report(t, s, "database", probe.Failure)
		expect(t, s, "page", states.Failure, "push: failure")
		report(t, s, "shop", probe.Failure) // unknown as before, since it depends on the database
		expect(t, s, "shop", states.Unknown, "drained")
		expect(t, s, "page", states.Unknown, "depends on shop, which fails")
	})
}
