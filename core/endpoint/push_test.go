package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// throughJSON returns st as another process reads it.
func throughJSON(t *testing.T, st *PushState) *PushState {
	t.Helper()
	text, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 8<<10 {
		t.Errorf("the state has %d bytes", len(text))
	}
	next := new(PushState)
	if err := json.Unmarshal(text, next); err != nil {
		t.Fatal(err)
	}
	return next
}

// randomPush returns a random check with a Push.
func randomPush(r *rand.Rand) Check {
	c := Check{Name: "push", Push: &Push{TTL: time.Duration(10+r.IntN(60)) * time.Second}}
	if r.IntN(3) == 0 {
		every, _ := ParseCron("*/2 * * * *", nil)
		c.Push = &Push{Schedule: every, Grace: time.Duration(r.IntN(60)) * time.Second}
	}
	if r.IntN(2) == 0 {
		c.Push.MaxRun = time.Duration(1+r.IntN(60)) * time.Second
	}
	switch r.IntN(3) {
	case 0:
		c.Push.Thresholds = Thresholds{Successes: r.IntN(4), Failures: r.IntN(4)}
	case 1:
		c.Push.Of = []int{1, 2, 5, 64}[r.IntN(4)]
		c.Push.Failures = 1 + r.IntN(min(c.Push.Of, 4))
	}
	if r.IntN(2) == 0 {
		c.StartPeriod = time.Duration(1+r.IntN(200)) * time.Second
	}
	return c
}

// step does something random to an endpoint in each set.
func step(t *testing.T, r *rand.Rand, sets ...*Set[string]) {
	what, wait := r.IntN(5), time.Duration(r.Int64N(int64(40*time.Second)))
	o := probe.Outcome{Result: []probe.Result{probe.Success, probe.Success, probe.Failure, probe.Warning, probe.Unknown}[r.IntN(5)]}
	o.Output = []string{"", "text", "\xff<&>\x00", strings.Repeat("é", 700), strings.Repeat("\xfe", 3000)}[r.IntN(5)]
	for _, s := range sets {
		var err error
		switch what {
		case 0:
			err = s.Started("a", "push")
		case 1, 2, 3:
			err = s.Report("a", "push", o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if what == 4 || r.IntN(2) == 0 {
		time.Sleep(wait)
	}
	synctest.Wait()
}

// A set with the state of an earlier one goes on as that one would have done.
func TestPushStateGoesOn(t *testing.T) {
	var late, running, starting, failing int
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 0))
		bubble(t, Config{}, func(t *testing.T, first *Set[string]) {
			c := randomPush(r)
			put(t, first, "a", Endpoint[string]{Checks: []Check{c}})
			for range r.IntN(20) {
				step(t, r, first)
			}
			second, err := New[string](Config{})
			if err != nil {
				t.Fatal(err)
			}
			before := mustStatus(t, first, "a").Checks[0]
			next, push := c, *c.Push
			push.Last = throughJSON(t, before.Push)
			next.Push = &push
			put(t, second, "a", Endpoint[string]{Checks: []Check{next}})
			for i := range 20 {
				a, b := mustStatus(t, first, "a"), mustStatus(t, second, "a")
				if diff := cmp.Diff(a.Checks[0], b.Checks[0]); diff != "" || a.State != b.State || a.Reason != b.Reason {
					t.Fatalf("seed %d, step %d: %v (%s) and %v (%s), -first +second\n%s", seed, i, a.State, a.Reason, b.State, b.Reason, diff)
				}
				step(t, r, first, second)
			}
			for count, is := range map[*int]bool{
				&late: before.Push.Late, &running: !before.Push.Started.IsZero(), &starting: !before.Push.StartPeriod.IsZero(), &failing: before.State == states.Failure && !before.Push.Late,
			} {
				if is {
					*count++
				}
			}
			if err := second.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if least := min(late, running, starting, failing); least < 10 {
		t.Errorf("of the states %d are late, %d running, %d starting, and %d failing", late, running, starting, failing)
	}
}

func TestPushStateJSON(t *testing.T) {
	at := time.Date(2026, 11, 30, 3, 30, 0, 0, time.UTC)
	for want, st := range map[string]PushState{
		`{}`: {},
		`{"put":"2026-11-30T03:30:00Z","startPeriod":"2026-11-30T03:30:00Z","since":"2026-11-30T03:30:00Z"}`: {Put: at, StartPeriod: at, Since: at},
		`{"report":"2026-11-30T03:30:00Z","started":"2026-11-30T03:31:00Z","state":"failure","since":"2026-11-30T03:30:00Z","text":"exit code 1","run":2,"results":"sff"}`: {
			Report: at, Started: at.Add(time.Minute), State: states.Failure, Since: at, Text: "exit code 1", Run: 2, Results: "sff",
		},
		`{"report":"2026-11-30T03:30:00Z","state":"failure","text":"no report for 1h0m0s","late":true,"run":1,"results":"f"}`: {
			Report: at, State: states.Failure, Text: "no report for 1h0m0s", Late: true, Run: 1, Results: "f",
		},
	} {
		got, err := json.Marshal(&st)
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v\nwant %s", got, err, want)
		}
	}
}

// sane compares what a set makes of any state with what is possible.
func sane(t *testing.T, c Check, st *PushState) {
	bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
		c.Push.Last = st
		put(t, s, "a", Endpoint[string]{Checks: []Check{c}})
		now, got := time.Now(), mustStatus(t, s, "a")
		p := throughJSON(t, got.Checks[0].Push)
		for name, at := range map[string]time.Time{"Report": p.Report, "Put": p.Put, "Started": p.Started, "StartPeriod": p.StartPeriod, "Since": p.Since} {
			if at.After(now) || !at.IsZero() && at.Before(time.Unix(0, 0)) {
				t.Errorf("%s is %v", name, at)
			}
		}
		if len(p.Text) > states.MaxText || len(p.Results) > 64 || strings.Trim(p.Results, "sf") != "" || p.Run < 0 || p.Late && p.State != states.Failure {
			t.Errorf("got %+v", p)
		}
		if p.Report.IsZero() == p.Put.IsZero() {
			t.Errorf("the report is %v and the Put %v: want one of them", p.Report, p.Put)
		}
		if next := got.Checks[0].Next; !p.Late && (!next.After(now) || next.After(now.Add(time.Hour))) {
			t.Errorf("the next change is at %v, now it is %v", next, now)
		}
		for range 2 {
			if err := errors.Join(s.Started("a", c.Name), s.Report("a", c.Name, probe.Outcome{Result: probe.Success})); err != nil {
				t.Fatal(err)
			}
		}
		expect(t, s, "a", states.Success, "")
		time.Sleep(time.Hour)
		expect(t, s, "a", states.Failure, "no report for")
	})
}

func insane() []PushState {
	far := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	past := time.Date(-9000, 1, 1, 0, 0, 0, 0, time.UTC)
	return []PushState{
		{},
		{Report: far, Put: far, Started: far, StartPeriod: far, Since: far},
		{Report: past, Put: past, Started: past, StartPeriod: past, Since: past, State: states.Success},
		{Report: time.Unix(1<<62, 0), Started: time.Unix(-1<<62, 0)},
		{State: 200, Run: -5, Results: strings.Repeat("fx", 1000), Text: strings.Repeat("a", 1<<20)},
		{State: states.Failure, Run: math.MaxInt, Late: true, Text: strings.Repeat("\xff", 1<<20)},
		{State: states.Success, Late: true, Run: 3, Results: "\x00\xff"},
		{Late: true},
		{Run: -1 << 31, Results: strings.Repeat("f", 64), StartPeriod: time.Unix(0, 0)},
	}
}

func TestInsanePushStateIsHarmless(t *testing.T) {
	schedule, err := ParseCron("0 * * * *", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, st := range insane() {
		for name, c := range map[string]Check{
			"ttl":      {Push: &Push{TTL: time.Minute, MaxRun: time.Hour, Thresholds: Thresholds{Successes: 2, Failures: 2}}},
			"window":   {Push: &Push{TTL: time.Hour, Thresholds: Thresholds{Failures: 64, Of: 64}}, StartPeriod: time.Minute},
			"schedule": {Push: &Push{Schedule: schedule}},
		} {
			c.Name = name
			t.Run(fmt.Sprint(name, i), func(t *testing.T) { sane(t, c, &st) })
		}
	}
}

func FuzzPushState(f *testing.F) {
	for _, st := range insane() {
		if text, err := json.Marshal(&st); err == nil {
			f.Add(text)
		}
	}
	f.Add([]byte(`{"report":"1999-12-31T23:59:59Z","state":"fine","results":"sfsf","run":1e3,"late":true}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		st := new(PushState)
		if json.Unmarshal(text, st) == nil {
			sane(t, Check{Name: "push", Push: &Push{TTL: time.Minute, MaxRun: time.Minute, Thresholds: Thresholds{Successes: 2}}, StartPeriod: time.Minute}, st)
		}
	})
}

func TestStateTextOfOtherVersionIsUnknown(t *testing.T) {
	for _, s := range states.All() {
		if got := throughJSON(t, &PushState{State: s}); got.State != s {
			t.Errorf("%v is read as %v", s, got.State)
		}
	}
	st := PushState{State: states.Failure}
	if err := json.Unmarshal([]byte(`{"state":"degraded"}`), &st); err != nil || st.State != states.Unknown {
		t.Errorf("got %v, %v", st.State, err)
	}
}

// A bubble cannot put the clock forward. But a set that compares its deadlines with the clock each minute
// finds one that has passed.
func TestDeadlinesAreComparedWithTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New[string](Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Shutdown(t.Context()) }()
		daily, err := ParseCron("30 3 * * *", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put("backup", Endpoint[string]{Checks: []Check{{Name: "push", Push: &Push{Schedule: daily}}}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if wait, _ := s.expireDue(); wait > time.Minute {
			t.Errorf("the next comparison is in %v", wait)
		}
	})
}
