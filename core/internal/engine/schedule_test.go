package engine_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

// wantTimes checks the start times of the attempts, in milliseconds since the start.
func (r *rig) wantTimes(want ...int) {
	r.t.Helper()
	var got []int
	for _, at := range r.callTimes() {
		got = append(got, int(at/ms))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("times of the attempts (-want +got):\n%s", diff)
	}
}

func TestSchedule(t *testing.T) {
	bubble(t, "first tick is immediate, the others follow every period", func(t *testing.T) {
		r := newRig(t, probe.Liveness).run()
		r.wait(3 * time.Second)
		r.wantTimes(0, 1000, 2000, 3000)
		if next := r.w.Status().Next.Sub(r.start); next != 4*time.Second {
			t.Errorf("next is due at %v", next)
		}
	})
	bubble(t, "period below a second is exact", func(t *testing.T) {
		r := newRig(t, probe.Liveness)
		r.cfg.Spec.Period, r.cfg.Spec.Timeout = 37*ms, 10*ms
		r.run().wait(37 * ms * 1000)
		r.wantCalls(1001)
		for i, at := range r.callTimes() {
			if want := time.Duration(i) * 37 * ms; at != want {
				t.Fatalf("tick %d at %v, want %v", i, at, want)
			}
		}
	})
	bubble(t, "phase moves the second tick and all later ones", func(t *testing.T) {
		r := newRig(t, probe.Liveness)
		r.cfg.Phase = 300 * ms
		r.run().wait(2500 * ms)
		r.wantTimes(0, 300, 1300, 2300)
	})
	bubble(t, "delay moves the first tick and all later ones", func(t *testing.T) {
		r := newRig(t, probe.Liveness)
		r.cfg.Delay = 700 * ms
		r.run().wait(2500 * ms)
		r.wantTimes(700, 1700)
	})
	bubble(t, "one missed tick runs late, the others are skipped", func(t *testing.T) {
		r := newRig(t, probe.Liveness, success.After(3500*ms), success)
		r.cfg.Spec.Timeout = 0
		r.run().wait(6 * time.Second)
		r.wantTimes(0, 3500, 4000, 5000, 6000)
		if got := r.skips(worker.SkipBusy); got != 2 {
			t.Errorf("%d dropped ticks counted, want 2", got)
		}
		late := r.ticks[1]
		if due := late.Due.Sub(r.start); due != time.Second {
			t.Errorf("the late tick was due at %v", due)
		}
	})
	bubble(t, "tick of exactly one period misses none", func(t *testing.T) {
		r := newRig(t, probe.Liveness, success.After(time.Second))
		r.cfg.Spec.Timeout = 0
		r.run().wait(3500 * ms)
		r.wantTimes(0, 1000, 2000, 3000)
		if got := r.skips(worker.SkipBusy); got != 0 {
			t.Errorf("%d dropped ticks counted", got)
		}
	})
	bubble(t, "ticks of a probe do not overlap", func(t *testing.T) {
		r := newRig(t, probe.Liveness, success.After(2500*ms))
		r.cfg.Spec.Timeout = 0
		r.run()
		for range 20 {
			r.w.Trigger()
			r.wait(700 * ms)
		}
		if got := r.handler.Peak(); got != 1 {
			t.Errorf("%d attempts at one time", got)
		}
	})
}

func TestStop(t *testing.T) {
	each(t, "#56 Stop ten times closes the observer once", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind).run()
		r.wantCached(results.Success)
		for range 10 {
			r.w.Stop()
		}
		r.wantCached(unset)
		r.w.Wait()
		r.wait(10 * time.Second)
		r.wantCalls(1)
		r.wantEnded(false)
		if got := r.closes(); got != 1 {
			t.Errorf("observer closed %d times", got)
		}
	})
	bubble(t, "#224 Stop cancels the delay of the first tick", func(t *testing.T) {
		r := newRig(t, probe.Liveness)
		r.cfg.Spec.Period, r.cfg.Delay = time.Hour, 59*time.Minute
		r.run().wait(time.Minute)
		r.w.Stop()
		if r.closes() != 1 {
			t.Error("the observer was not closed")
		}
		r.wait(2 * time.Hour)
		r.wantCalls(0)
	})
	each(t, "Stop cancels the attempt under way and drops its result", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, probetest.Hang())
		r.cfg.Spec.Timeout = time.Hour
		r.run()
		if got := r.handler.Active(); got != 1 {
			t.Fatalf("%d attempts under way, want 1", got)
		}
		r.w.Stop()
		r.w.Wait()
		if got := r.handler.Active(); got != 0 {
			t.Errorf("%d attempts under way after Wait", got)
		}
		r.wantNothingRecorded()
	})
	each(t, "late result of a handler that ignores its context is not recorded", func(t *testing.T, kind probe.Kind) {
		for _, late := range []probetest.Step{success, failure, probetest.Error(errBoom)} {
			late.Delay, late.Deaf = time.Minute, true
			r := newRig(t, kind, late).run()
			before := time.Now()
			r.w.Stop()
			if waited := time.Since(before); waited != 0 {
				t.Errorf("Stop waited %v", waited)
			}
			if r.w.Idle() || r.closes() != 0 {
				t.Error("the attempt is said to be over")
			}
			r.w.Wait()
			synctest.Wait()
			r.wantNothingRecorded()
			r.wantCalls(1)
		}
	})
}

func TestStopDuringTick(t *testing.T) {
	bubble(t, "worker is not idle before its observers are closed", func(t *testing.T) {
		late := success.After(time.Minute)
		late.Deaf = true
		r := newRig(t, probe.Readiness, late)
		drained := true
		r.shared.Observers = []worker.Observer{observerFunc(func(worker.Info) worker.ProbeObserver {
			return ending(func() { drained = r.w.Idle() })
		})}
		r.run()
		r.w.Stop()
		r.w.Wait()
		if drained || !r.w.Idle() {
			t.Errorf("resting while its observers are told: %v; after that: %v", drained, r.w.Idle())
		}
	})
	bubble(t, "Halt stops the worker, and closes the observers when the caller does", func(t *testing.T) {
		r := newRig(t, probe.Readiness).run()
		if !r.w.Halt() || r.w.Halt() {
			t.Error("the first Halt alone must report that the worker rests")
		}
		r.wantCached(unset)
		if got := r.closes(); got != 0 {
			t.Errorf("observer closed %d times", got)
		}
		r.w.Stop() // has no effect
		r.w.CloseObservers()
		r.wait(5 * time.Second)
		r.wantCalls(1)
		if got := r.closes(); got != 1 {
			t.Errorf("observer closed %d times", got)
		}
	})
}

// ending is an observer function that is called when a worker ends.
type ending func()

func (ending) Tick(*worker.Tick)              {}
func (ending) Skipped(worker.SkipReason, int) {}
func (e ending) Close()                       { e() }

// wantNothingRecorded checks that a stopped worker has neither recorded nor reported a result.
func (r *rig) wantNothingRecorded() {
	r.t.Helper()
	r.wantCached(unset)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ticks) > 0 || len(r.events) > 0 || r.closed != 1 {
		r.t.Errorf("%d ticks, events %q, observer closed %d times", len(r.ticks), r.events, r.closed)
	}
}

func TestTrigger(t *testing.T) {
	bubble(t, "#225 Trigger ticks now and restarts the period", func(t *testing.T) {
		r := newRig(t, probe.Readiness).run()
		r.wait(1400 * ms)
		r.w.Trigger()
		r.wait(2 * time.Second)
		r.wantTimes(0, 1000, 1400, 2400, 3400)
	})
	bubble(t, "#225 Triggers during a tick cause one tick right after it", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success.After(400*ms), success).run()
		r.wait(100 * ms)
		for range 100 {
			r.w.Trigger()
		}
		r.wait(2 * time.Second)
		r.wantTimes(0, 400, 1400)
	})
	bubble(t, "Trigger does not wait for the first tick", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Delay = 800 * ms
		r.run().wait(100 * ms)
		r.w.Trigger()
		r.wait(1500 * ms)
		r.wantTimes(100, 1100)
	})
	bubble(t, "Trigger of a stopped worker does nothing", func(t *testing.T) {
		r := newRig(t, probe.Readiness).run()
		r.w.Stop()
		r.w.Trigger()
		r.w.Nudge()
		r.w.Resume()
		r.wait(5 * time.Second)
		r.wantCalls(1)
	})
}

func TestNudge(t *testing.T) {
	bubble(t, "Nudge triggers a probe that was not probed yet", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.state.Started = false
		r.cfg.Spec.Period = 30 * time.Second
		r.run().wait(5 * time.Second)
		r.wantCalls(0)
		r.become(func(s *worker.State) { s.Started = true })
		r.w.Nudge()
		synctest.Wait()
		r.wantTimes(5000)
		r.wait(30 * time.Second)
		r.wantTimes(5000, 35000)
	})
	bubble(t, "Nudge does nothing once the container was probed", func(t *testing.T) {
		r := newRig(t, probe.Readiness, failure).run()
		for range 9 {
			r.w.Nudge()
			r.wait(100 * ms)
		}
		r.wantTimes(0)
	})
	bubble(t, "every Nudge triggers, kubelet", func(t *testing.T) {
		r := newRig(t, probe.Readiness, failure)
		r.shared.Compat = probe.CompatTriggerAlways
		r.run()
		for range 3 {
			r.wait(100 * ms)
			r.w.Nudge()
		}
		r.wait(1500 * ms)
		r.wantTimes(0, 100, 200, 300, 1300)
	})
	bubble(t, "Nudge triggers again for a new container", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.Period = 30 * time.Second
		r.state.Started = false
		r.run()
		r.become(func(s *worker.State) { s.Started = true })
		r.w.Nudge()
		r.wait(time.Second)
		r.restart("c2")
		r.become(func(s *worker.State) { s.Started = false })
		r.wait(30 * time.Second) // the new container is known, but not probed yet
		r.become(func(s *worker.State) { s.Started = true })
		r.w.Nudge()
		synctest.Wait()
		r.wantTimes(0, 31000)
	})
	for name, compat := range map[string]probe.Compat{"": 0, ", kubelet": kubelet} {
		bubble(t, "Nudge does not shorten the delay of the first tick"+name, func(t *testing.T) {
			r := newRig(t, probe.Readiness)
			r.shared.Compat = compat
			r.cfg.Delay = 800 * ms
			r.run().wait(100 * ms)
			r.w.Nudge()
			r.wait(600 * ms)
			r.wantCalls(0)
			r.wait(200 * ms)
			if got := r.callTimes(); len(got) == 0 || got[0] != 800*ms {
				t.Errorf("attempts at %v", got)
			}
		})
	}
}

func TestPause(t *testing.T) {
	bubble(t, "paused probe keeps its result and makes no attempt", func(t *testing.T) {
		r := newRig(t, probe.Readiness).run()
		r.w.Pause()
		r.does(failure)
		r.wait(5 * time.Second)
		r.w.Trigger()
		r.wait(500 * ms)
		r.wantCalls(1)
		r.wantCached(results.Success)
		if s := r.w.Status(); !s.Paused || !s.Next.IsZero() {
			t.Errorf("status: %+v", s)
		}
		r.w.Resume()
		synctest.Wait()
		r.wantTimes(0, 5500)
		r.wantCached(results.Failure)
		if s := r.w.Status(); s.Paused || s.Next.IsZero() {
			t.Errorf("status: %+v", s)
		}
	})
	each(t, "paused probe that never ran keeps its initial result", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.cfg.Paused = true
		r.run().wait(5 * time.Second)
		r.wantCalls(0)
		r.wantCached(initial(kind))
	})
	bubble(t, "Pause cancels the attempt under way, which is not counted", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success, probetest.Hang()).run()
		r.tick()
		r.w.Pause()
		synctest.Wait()
		if got := r.handler.Active(); got != 0 {
			t.Errorf("%d attempts under way", got)
		}
		r.wantCached(results.Success)
		r.wantRun(1, false)
		if got := len(r.ticks); got != 1 {
			t.Errorf("%d ticks observed, want 1", got)
		}
	})
	bubble(t, "paused probe still follows the state of the container", func(t *testing.T) {
		r := newRig(t, probe.Readiness).run()
		r.w.Pause()
		r.become(func(s *worker.State) { s.Running = false })
		r.tick()
		r.wantCached(results.Failure)
	})
	bubble(t, "Resume ticks at once, and replaces the first tick", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Delay = 800 * ms
		r.run().wait(100 * ms)
		r.w.Pause()
		r.w.Resume()
		r.wait(1500 * ms)
		r.wantTimes(100, 1100)
	})
	bubble(t, "second Pause or Resume does nothing", func(t *testing.T) {
		r := newRig(t, probe.Readiness).run()
		r.wait(100 * ms)
		r.w.Resume()
		synctest.Wait()
		r.wantTimes(0)
		r.w.Pause()
		r.w.Pause()
		r.w.Resume()
		r.w.Resume()
		r.wait(1500 * ms)
		r.wantTimes(0, 100, 1100)
	})
}

func TestObserver(t *testing.T) {
	bubble(t, "fields of a Tick", func(t *testing.T) {
		r := newRig(t, probe.Readiness, probetest.Answer(probe.Success, "hello").After(20*ms))
		r.cfg.Spec.SuccessThreshold = 2
		r.run().wait(1100 * ms)
		want := worker.Tick{
			Due: r.start.Add(time.Second), Start: r.start.Add(time.Second), End: r.start.Add(1020 * ms),
			ContainerID: "c1", Handler: "fake", Attempts: 1, Outcome: probe.Outcome{Result: probe.Success, Output: "hello"},
			Counted: true, Result: results.Success, RunBefore: 1, Run: 2, Threshold: 2,
			Before: results.Failure, After: results.Success, Next: r.start.Add(2 * time.Second),
		}
		if diff := cmp.Diff(want, r.lastTick()); diff != "" {
			t.Error(diff)
		}
	})
	bubble(t, "ticks that the gate stops are not reported", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.state.Started = false
		r.run().wait(5 * time.Second)
		if len(r.ticks) != 0 {
			t.Errorf("%d ticks", len(r.ticks))
		}
	})
	bubble(t, "observers of Shared are called after that of the probe", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		var order []string
		r.cfg.Observer = noted{&order, "own"}
		r.shared.Observers = []worker.Observer{observerFunc(func(i worker.Info) worker.ProbeObserver {
			return noted{&order, i.Pod + " " + i.Container + " " + i.Kind.String()}
		})}
		r.run()
		r.w.Stop()
		want := []string{"own tick", "pod web readiness tick", "own close", "pod web readiness close"}
		if !slices.Equal(order, want) {
			t.Errorf("got %q, want %q", order, want)
		}
	})
}

type observerFunc func(worker.Info) worker.ProbeObserver

func (f observerFunc) Observe(i worker.Info) worker.ProbeObserver { return f(i) }

// noted is an observer that records its calls.
type noted struct {
	order *[]string
	name  string
}

func (n noted) Tick(*worker.Tick)              { *n.order = append(*n.order, n.name+" tick") }
func (n noted) Skipped(worker.SkipReason, int) { *n.order = append(*n.order, n.name+" skipped") }
func (n noted) Close()                         { *n.order = append(*n.order, n.name+" close") }

func TestGoroutinesAfterBurst(t *testing.T) {
	bubble(t, "goroutines of attempts that have ended are ended", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success.After(time.Second))
		r.cfg.Spec.Period, r.cfg.Spec.Timeout = time.Hour, 0
		before := runtime.NumGoroutine()
		for i := range 200 {
			cfg := r.cfg
			cfg.Task = &worker.Task{}
			cfg.Task.SetState(worker.Running(fmt.Sprint(i), time.Now()))
			w := engine.New(&r.shared, cfg)
			w.Start()
			t.Cleanup(w.Stop)
		}
		synctest.Wait()
		if got := r.handler.Active(); got != 200 {
			t.Fatalf("%d attempts under way, want 200", got)
		}
		r.wait(time.Minute)
		if got := runtime.NumGoroutine() - before; got > 50 {
			t.Errorf("%d goroutines a minute later", got)
		}
	})
}

func TestStalled(t *testing.T) {
	bubble(t, "a hanging handler stalls no schedule", func(t *testing.T) {
		r := newRig(t, probe.Liveness, probetest.Hang())
		r.cfg.Spec.Timeout = 5 * time.Minute
		r.run()
		for range 100 {
			r.wait(700 * ms)
			if d := r.shared.Stalled(); d != 0 {
				t.Fatalf("stalled for %v", d)
			}
		}
	})
}
