package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// A shard whose runner does not come is stalled, and a watchdog must detect that. A shard that takes
// workers, however late, is not stalled.
func TestStalledIsTimeSinceLastWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &Shared{}
		if got := shared.Stalled(); got != 0 {
			t.Errorf("stalled for %v without workers", got)
		}
		s := shared.init().shard()
		s.workers, s.called = 2, true // a runner was called, but does not come
		now := s.schedule.since(time.Now())
		late := &Worker{}
		late.scheduled.Store(int64(momentOf(now, 0)))
		s.pushLocked(late, momentOf(now, 0))
		s.pushLocked(&Worker{}, momentOf(now+int64(time.Second), 0))
		for _, want := range []time.Duration{0, 9 * time.Second} {
			time.Sleep(want)
			if got := shared.Stalled(); got != want {
				t.Errorf("stalled for %v, want %v", got, want)
			}
		}
		s.mu.Lock()
		s.latest = &runner{}
		taken, _ := s.takeLocked(s.latest, s.schedule.since(time.Now()))
		s.mu.Unlock()
		if taken != late {
			t.Fatal("the worker that is due first was not taken")
		}
		time.Sleep(time.Second) // the other worker has been due for 9 s
		if got := shared.Stalled(); got != time.Second {
			t.Errorf("stalled for %v, want 1s: a worker was taken then", got)
		}
	})
}
