package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// windowOf returns the documented window for a period.
func windowOf(period time.Duration) time.Duration { return min(period/100, 10*ms) }

// windowed is a worker with its expected ticks.
type windowed struct {
	*engine.Worker
	rig    *rig
	period time.Duration
	last   time.Duration // due time before due
	due    time.Duration
	late   int // ticks that came after their due time
	all    int

	mu    sync.Mutex
	ticks []time.Duration // ticks since the last take
}

func (w *windowed) note(at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticks = append(w.ticks, at)
}

// take returns the start times of the ticks since the last call.
func (w *windowed) take() (ticks []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ticks, w.ticks = w.ticks, nil
	return ticks
}

// flock is a schedule with workers that are added and stopped.
type flock struct {
	*testing.T
	shared  *engine.Shared
	start   time.Time
	workers []*windowed
	random  *rand.Rand
	added   int
}

func newFlock(t *testing.T, seed uint64) *flock {
	return &flock{T: t, shared: &newRig(t, probe.Readiness).shared, start: time.Now(), random: rand.New(rand.NewPCG(seed, 2))}
}

func (f *flock) now() time.Duration { return time.Since(f.start) }

func (f *flock) period() time.Duration {
	periods := []time.Duration{10 * ms, 30 * ms, 100 * ms, 370 * ms, time.Second, time.Second, time.Second, 3 * time.Second, 10 * time.Second}
	return periods[f.random.IntN(len(periods))]
}

// add adds a worker whose first tick is due at a random time within its period.
func (f *flock) add(period time.Duration) *windowed {
	w := &windowed{rig: newRig(f.T, probe.Readiness), period: period}
	f.added++
	w.rig.restart(fmt.Sprint("c", f.added))
	w.rig.cfg.Spec.Period, w.rig.cfg.Delay = period, time.Duration(f.random.Int64N(int64(period)))
	w.rig.cfg.Handler = probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		w.note(f.now())
		return probe.Outcome{Result: probe.Success}, nil
	})
	w.due = f.now() + w.rig.cfg.Delay
	w.last = w.due - period
	w.Worker = engine.New(f.shared, w.rig.cfg)
	w.Start()
	f.workers = append(f.workers, w)
	return w
}

// check compares the ticks so far with the schedule. No tick may be missing.
func (f *flock) check() {
	f.Helper()
	for _, w := range f.workers {
		for _, at := range w.take() {
			if late := at - w.due; late < 0 || late > windowOf(w.period) {
				f.Fatalf("period %v: the tick that is due at %v came at %v", w.period, w.due, at)
			}
			if at > w.due {
				w.late++
			}
			w.last, w.due = w.due, w.due+w.period
			w.all++
		}
		if late := f.now() - w.due; late > windowOf(w.period) {
			f.Fatalf("period %v: the tick that is due at %v has not come at %v", w.period, w.due, f.now())
		}
	}
}

// change changes or stops a worker, or adds one.
func (f *flock) change() {
	w := f.workers[f.random.IntN(len(f.workers))]
	now := f.now()
	switch f.random.IntN(5) {
	case 0:
		f.add(f.period())
	case 1:
		w.Stop()
		f.workers = slices.DeleteFunc(f.workers, func(o *windowed) bool { return o == w })
		if len(f.workers) == 0 {
			f.add(f.period())
		}
	case 2, 3:
		w.Trigger()
		synctest.Wait()
		if ticks := w.take(); len(ticks) != 1 || ticks[0] != now {
			f.Fatalf("a tick that was triggered at %v came at %v", now, ticks)
		}
		w.last, w.due = now, now+w.period
	default:
		if period := f.period(); period != w.period {
			w.due, w.period = max(w.last+period, now), period
			w.last = w.due - period
		}
		w.rig.cfg.Spec.Period = w.period
		w.Update(engine.Change{Setup: w.rig.cfg.Setup, KeepRun: true, KeepPaused: true})
	}
}

// TestWindow adds, stops, triggers and changes random workers. No periodic tick may come before its due
// time or after its window, and the next one is due a period later. A triggered tick comes at once.
func TestWindow(t *testing.T) {
	late, all := 0, 0
	for seed := range *modelSeeds / 4 {
		synctest.Test(t, func(t *testing.T) {
			f := newFlock(t, uint64(seed))
			for range 1 + f.random.IntN(60) {
				f.add(f.period())
			}
			for range 100 {
				time.Sleep(time.Duration(f.random.Int64N(int64(200 * ms))))
				synctest.Wait()
				f.check()
				f.change()
			}
			for _, w := range f.workers {
				late, all = late+w.late, all+w.all
				w.Stop()
			}
			f.shared.Wait()
		})
	}
	if late < *modelSeeds {
		t.Errorf("only %d of %d ticks have waited for others", late, all)
	}
}

// wakes returns how many distinct start times and how many ticks n workers with a period of one second have
// in a minute.
func wakes(t *testing.T, n int, compat probe.Compat) (moments, ticks int) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlock(t, 1)
		f.shared.Compat = compat
		for range n {
			f.add(time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		seen := make(map[time.Duration]bool)
		for _, w := range f.workers {
			for _, at := range w.take() {
				seen[at] = true
				ticks++
			}
			w.Stop()
		}
		f.shared.Wait()
		moments = len(seen)
	})
	return moments, ticks
}

func TestWindowWakeUps(t *testing.T) {
	const minute = 60
	shards := min(runtime.GOMAXPROCS(0), 8)
	t.Run("a shard with many workers wakes a hundred times a second at most", func(t *testing.T) {
		moments, ticks := wakes(t, 1000, 0)
		if most := 100 * shards * minute; moments > most || ticks < 1000*(minute-1) {
			t.Errorf("%d wake-ups for %d ticks, want %d wake-ups at most", moments, ticks, most)
		}
	})
	t.Run("each tick has its own wake-up, kubelet", func(t *testing.T) {
		if moments, ticks := wakes(t, 1000, kubelet); moments != ticks {
			t.Errorf("%d wake-ups for %d ticks", moments, ticks)
		}
	})
	t.Run("a worker alone is not late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFlock(t, 1)
			w := f.add(time.Second)
			time.Sleep(time.Minute)
			synctest.Wait()
			f.check()
			if w.late > 0 {
				t.Errorf("%d of %d ticks are late", w.late, w.all)
			}
			w.Stop()
		})
	})
}

// TestWindowOfNewWorker adds a worker while others are due soon: its first tick does not wait for them.
func TestWindowOfNewWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlock(t, 1)
		for range 500 {
			f.add(time.Second)
		}
		for i := range 100 {
			time.Sleep(time.Duration(i) * 97 * time.Microsecond)
			r := newRig(t, probe.Readiness)
			r.restart(fmt.Sprint("new", i))
			w := engine.New(f.shared, r.cfg)
			w.Start()
			synctest.Wait()
			r.wantTimes(0)
			w.Stop()
		}
		for _, w := range f.workers {
			w.Stop()
		}
		f.shared.Wait()
	})
}

// TestWindowOfLateTick has a tick that takes longer than a period: a tick that is due meanwhile runs at
// once.
func TestWindowOfLateTick(t *testing.T) {
	bubble(t, "lag is the previous tick's", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success.After(1400*ms), success)
		r.cfg.Spec.Timeout = 0
		r.run().wait(3 * time.Second)
		r.wantTimes(0, 1400, 2000, 3000)
		if got := r.skips(worker.SkipBusy); got != 0 {
			t.Errorf("%d ticks lost", got)
		}
	})
}
