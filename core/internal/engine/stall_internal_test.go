package engine

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
)

func TestLostBetween(t *testing.T) {
	for name, tc := range map[string]struct {
		start, end stallReading // in milliseconds
		want       int64
	}{
		"no beat was late":               {start: stallReading{now: 1000, due: 1010}, end: stallReading{now: 2000, due: 2010}},
		"stall before the attempt":       {start: stallReading{now: 1000, lost: 800}, end: stallReading{now: 2000, lost: 800}},
		"stall at the beginning":         {start: stallReading{now: 1000, due: 900}, end: stallReading{now: 2000, lost: 200}, want: 100},
		"several stalls":                 {start: stallReading{now: 1000, due: 1100}, end: stallReading{now: 2000, lost: 300}, want: 300},
		"next beat is late":              {start: stallReading{now: 1000}, end: stallReading{now: 2000, due: 1400}, want: 600},
		"next beat is hardly late":       {start: stallReading{now: 1000}, end: stallReading{now: 2000, due: 1990}},
		"stall of the whole attempt":     {start: stallReading{now: 1000, due: 900}, end: stallReading{now: 2000, lost: 1100}, want: 1000},
		"stall since before the attempt": {start: stallReading{now: 1000, due: 500}, end: stallReading{now: 2000, due: 500}, want: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			scale := func(r stallReading) stallReading {
				const ms = int64(time.Millisecond)
				return stallReading{r.now * ms, r.lost * ms, r.due * ms}
			}
			if got := lostBetween(scale(tc.start), scale(tc.end)); got.Milliseconds() != tc.want {
				t.Errorf("lost %v, want %d ms", got, tc.want)
			}
		})
	}
}

// TestStallMeterOverload takes a second of real time, because a bubble has no scheduler to overload.
// Attempts wait for a processor although timers are on time.
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
	lost := watch.lost()
	over.Store(true)
	work.Wait()
	if lost < minStallToDiscard(time.Second) {
		t.Errorf("%v of a second lost", lost)
	}
}

func TestIsStallCandidate(t *testing.T) {
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	early, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		o    probe.Outcome
		want bool
	}{
		"time-out":          {late, probe.TimedOut(time.Second), true},
		"look-up timed out": {late, probe.Outcome{Result: probe.Failure, Reason: probe.ReasonDNS}, true},
		"no such name":      {early, probe.Outcome{Result: probe.Failure, Reason: probe.ReasonDNS}, false},
		"answer read late":  {late, probe.Outcome{Result: probe.Failure, Reason: probe.ReasonHTTPStatus}, false},
		"success read late": {late, probe.Outcome{Result: probe.Success}, false},
		"no timeout":        {t.Context(), probe.TimedOut(time.Second), false},
	} {
		if got := isStallCandidate(tc.ctx, tc.o); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMinStallToDiscard(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		10 * time.Millisecond: beat, time.Second: 250 * time.Millisecond, time.Minute: 15 * time.Second,
	} {
		if got := minStallToDiscard(timeout); got != want {
			t.Errorf("timeout %v: %v, want %v", timeout, got, want)
		}
	}
}
