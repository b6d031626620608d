package worker

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestStallMeter(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	attempt := span{at(1000), at(2000)}
	for name, tc := range map[string]struct {
		stalls []span
		due    time.Time // of the beat that has not come yet; zero: none
		want   time.Duration
	}{
		"nothing happened":                 {want: 0},
		"before the attempt":               {stalls: []span{{at(100), at(900)}}, want: 0},
		"across its beginning":             {stalls: []span{{at(900), at(1100)}}, want: 100 * time.Millisecond},
		"several":                          {stalls: []span{{at(1100), at(1200)}, {at(1500), at(1700)}}, want: 300 * time.Millisecond},
		"the last beat is overdue":         {due: at(1400), want: 600 * time.Millisecond},
		"the last beat is hardly late":     {due: at(1990), want: 0},
		"the whole attempt":                {stalls: []span{{at(900), at(2100)}}, want: time.Second},
		"the last beat is not due":         {due: at(2010), want: 0},
		"overdue since before the attempt": {due: at(500), want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			m := &stallMeter{stalls: tc.stalls, armed: !tc.due.IsZero(), due: tc.due}
			if got := m.lost(attempt); got != tc.want {
				t.Errorf("lost %v, want %v", got, tc.want)
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
		if lost := watch.lost(); lost != 0 {
			t.Errorf("%v lost under a clock that never is late", lost)
		}
		watch.end()
		time.Sleep(time.Second)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.armed {
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
	lost := watch.lost()
	over.Store(true)
	work.Wait()
	if lost < worthless(time.Second) {
		t.Errorf("%v of a second lost", lost)
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
