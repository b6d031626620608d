package worker

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/probe"
)

func TestStallMeter(t *testing.T) {
	const ms = int64(time.Millisecond)
	// stall is a beat that came late.
	type stall struct{ due, came int64 }
	for name, tc := range map[string]struct {
		before, during []stall // with respect to the beginning of the attempt, which lasts from 1000 to 2000
		due            int64   // of the beat that has not come at the end; 0: none
		want           int64
	}{
		"nothing happened":             {},
		"before the attempt":           {before: []stall{{100, 900}}},
		"across its beginning":         {during: []stall{{900, 1100}}, want: 100},
		"several":                      {during: []stall{{1100, 1200}, {1500, 1700}}, want: 300},
		"the last beat is overdue":     {due: 1400, want: 600},
		"the last beat is hardly late": {due: 1990},
		"the last beat is not due":     {due: 2010},
		"the whole attempt":            {during: []stall{{900, 2000}}, want: 1000},
		"overdue since before":         {due: 500, want: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			m := new(stallMeter)
			for _, s := range tc.before {
				m.lost.Add((s.came - s.due) * ms)
			}
			if len(tc.during) > 0 {
				m.due.Store(tc.during[0].due * ms)
			} else {
				m.due.Store(tc.due * ms)
			}
			watch := stallWatch{m, 1000 * ms, m.lostBy(1000 * ms)}
			for _, s := range tc.during {
				m.lost.Add((s.came - s.due) * ms)
			}
			m.due.Store(tc.due * ms)
			if got := watch.lostBy(2000 * ms); got != time.Duration(tc.want*ms) {
				t.Errorf("lost %v, want %d ms", got, tc.want)
			}
		})
	}
}

// The meter costs nothing while there are no attempts.
func TestStallMeterRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m stallMeter
		watch := m.begin()
		time.Sleep(time.Second)
		if lost := watch.lostBy(clock()); lost != 0 {
			t.Errorf("%v lost under a clock that never is late", lost)
		}
		watch.end()
		time.Sleep(time.Second)
		if m.due.Load() != 0 {
			t.Error("the meter beats without an attempt")
		}
	})
}

// An agent that has more to do than its processors can lets its attempts wait, though its
// timers are on time.
func TestStallMeterOverload(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var m stallMeter
	watch := m.begin()
	defer watch.end()
	var over atomic.Bool
	var work sync.WaitGroup
	for range 30 {
		work.Go(func() {
			for !over.Load() {
			}
		})
	}
	time.Sleep(time.Second)
	lost := watch.lostBy(clock())
	over.Store(true)
	work.Wait()
	if lost < worthless(time.Second) {
		t.Errorf("%v of a second lost", lost)
	}
}

func TestMayBeStalled(t *testing.T) {
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	early, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		o    probe.Outcome
		want bool
	}{
		"time-out":                     {late, probe.TimedOut(time.Second), true},
		"look-up of a name":            {late, probe.Outcome{Result: probe.Failure, Reason: probe.ReasonDNS}, true},
		"no such name":                 {early, probe.Outcome{Result: probe.Failure, Reason: probe.ReasonDNS}, false},
		"an answer that was read late": {late, probe.Outcome{Result: probe.Failure, Reason: probe.ReasonHTTPStatus}, false},
		"a success that was read late": {late, probe.Outcome{Result: probe.Success}, false},
		"no timeout":                   {t.Context(), probe.TimedOut(time.Second), false},
	} {
		if got := mayBeStalled(tc.ctx, tc.o); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWorthless(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		10 * time.Millisecond: beat, time.Second: 250 * time.Millisecond, time.Minute: 15 * time.Second,
	} {
		if got := worthless(timeout); got != want {
			t.Errorf("timeout %v: %v, want %v", timeout, got, want)
		}
	}
}
