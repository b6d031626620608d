package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// change updates r's probe with its current configuration, changed by edit.
func (r *rig) change(edit func(*engine.Change)) {
	c := engine.Change{Setup: engine.Setup{Spec: r.w.Status().Spec, Handler: r.handler, Name: "fake"}, KeepRun: true, KeepAttempt: true}
	edit(&c)
	r.w.Update(c)
	synctest.Wait()
}

func TestUpdateSchedule(t *testing.T) {
	bubble(t, "new period counts from the last tick, also before an early second tick", func(t *testing.T) {
		r := newRig(t, probe.Readiness, probetest.Answer(probe.Success, ""))
		r.cfg.Spec.Period, r.cfg.Phase = 10*time.Second, 3*time.Second
		r.run()
		r.wait(time.Second)
		r.change(func(c *engine.Change) { c.Spec.Period = 5 * time.Second })
		if got := r.w.Status().Next.Sub(r.start); got != 5*time.Second {
			t.Errorf("the next tick is due %v after the first, want 5s", got)
		}
	})
	period := func(d time.Duration) func(*engine.Change) {
		return func(c *engine.Change) { c.Spec.Period = d }
	}
	bubble(t, "shorter period takes effect at once", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.Period = 10 * time.Second
		r.run().wait(time.Second)
		r.change(period(3 * time.Second))
		r.wait(6 * time.Second)
		r.wantTimes(0, 3000, 6000)
	})
	bubble(t, "shorter period that has passed ticks now", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.Period = 10 * time.Second
		r.run().wait(5 * time.Second)
		r.change(period(2 * time.Second))
		r.wait(4 * time.Second)
		r.wantTimes(0, 5000, 7000, 9000)
	})
	bubble(t, "longer period takes effect at once", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.run().wait(1500 * ms)
		r.change(period(5 * time.Second))
		r.wait(10 * time.Second)
		r.wantTimes(0, 1000, 6000, 11000)
	})
	bubble(t, "update with the same period keeps the schedule", func(t *testing.T) {
		r := newRig(t, probe.Readiness).run()
		r.wait(1500 * ms)
		r.change(func(c *engine.Change) { c.Spec.FailureThreshold = 7 })
		r.wait(time.Second)
		r.wantTimes(0, 1000, 2000)
		if got := r.handler.Calls()[2].Request.Spec.FailureThreshold; got != 7 {
			t.Errorf("the handler was told of failureThreshold %d", got)
		}
	})
	bubble(t, "update keeps a trigger", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.Period = 10 * time.Second
		r.run().wait(time.Second)
		r.w.Trigger()
		r.change(func(c *engine.Change) { c.Spec.FailureThreshold = 7 })
		r.wantTimes(0, 1000)
	})
}

func TestUpdateRun(t *testing.T) {
	bubble(t, "same handler keeps the run", func(t *testing.T) {
		r := newRig(t, probe.Readiness, failure)
		r.cfg.Spec.FailureThreshold = 4
		r.state.StartedAt = r.start.Add(-time.Hour)
		r.cfg.Task.PriorID = "c1" // no initial result is set, so the cache has no result yet
		r.run().tick()
		r.wantRun(2, false)
		r.change(func(c *engine.Change) { c.Spec.FailureThreshold = 3 })
		r.wantCached(unset)
		r.tick()
		r.wantRun(3, false)
		r.wantCached(results.Failure)
	})
	bubble(t, "another handler starts a new run", func(t *testing.T) {
		r := newRig(t, probe.Liveness, failure)
		r.cfg.Spec.FailureThreshold = 3
		r.run().tick()
		other := probetest.NewHandler(failure)
		r.change(func(c *engine.Change) { c.Handler, c.Name, c.KeepRun = other, "other", false })
		r.wantCached(results.Success)
		r.tick()
		r.wantRun(1, false)
		r.wantCalls(2)
		if other.Count() != 1 || r.w.Info().Handler != "other" || r.lastTick().Handler != "other" {
			t.Errorf("%d calls of the new handler; name %q, in the tick %q", other.Count(), r.w.Info().Handler, r.lastTick().Handler)
		}
	})
}

// slow delays the step by 300 ms, regardless of the context.
func slow(s probetest.Step) probetest.Step {
	s = s.After(300 * ms)
	s.Deaf = true
	return s
}

func TestUpdateAttempt(t *testing.T) {
	timeout := func(c *engine.Change) { c.Spec.Timeout += ms }
	bubble(t, "new timeout cancels the attempt under way, and another one begins at once", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success, slow(failure), success).run()
		r.wait(1100 * ms)
		r.change(timeout)
		r.wait(200 * ms)
		r.wantTimes(0, 1000, 1300)
		r.wantCached(results.Success)
		r.wantRun(2, false)
		if len(r.ticks) != 2 || len(r.sent()) != 0 {
			t.Errorf("%d ticks, events %q", len(r.ticks), r.sent())
		}
		r.wait(time.Second)
		r.wantTimes(0, 1000, 1300, 2300)
	})
	bubble(t, "new thresholds keep the attempt under way, and it counts by them", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success, slow(failure))
		r.cfg.Spec.FailureThreshold = 3
		r.run().wait(1100 * ms)
		r.change(func(c *engine.Change) { c.Spec.FailureThreshold = 1 })
		r.wait(200 * ms)
		r.wantTimes(0, 1000)
		r.wantCached(results.Failure)
	})
	bubble(t, "attempt under way is cancelled", func(t *testing.T) {
		r := newRig(t, probe.Readiness, probetest.Hang(), success).run()
		r.change(timeout)
		r.wantTimes(0, 0)
		r.wantRun(1, false)
	})
	bubble(t, "error of a cancelled attempt is not retried", func(t *testing.T) {
		r := newRig(t, probe.Readiness, slow(probetest.Error(errBoom)), success).run()
		r.wait(100 * ms)
		r.change(timeout)
		r.wait(800 * ms)
		r.wantTimes(0, 300)
	})
	bubble(t, "attempt that replaces a cancelled one is not cancelled again", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success, probetest.Hang(), failure.After(300*ms)).run()
		r.tick()
		for range 3 {
			r.wait(100 * ms)
			r.change(timeout)
		}
		r.wait(100 * ms)
		r.wantTimes(0, 1000, 1100)
		r.wantCached(results.Failure)
		r.does(probetest.Hang(), success)
		r.wait(800 * ms)
		r.change(timeout) // the attempt is not a replacement, so it is cancelled
		r.wantTimes(0, 1000, 1100, 2100, 2200)
	})
	bubble(t, "attempt without a timeout is always cancelled", func(t *testing.T) {
		r := newRig(t, probe.Readiness, probetest.Hang(), probetest.Hang(), success)
		r.cfg.Spec.Timeout = 0
		r.run()
		r.change(func(c *engine.Change) { c.KeepAttempt = false })
		r.change(timeout)
		r.wantTimes(0, 0, 0)
		r.wantRun(1, false)
	})
	bubble(t, "probe whose handler changes faster than its attempts end still decides", func(t *testing.T) {
		r := newRig(t, probe.Readiness, success)
		r.cfg.Spec.FailureThreshold = 3
		r.run()
		for range 40 {
			r.wait(100 * ms)
			r.change(func(c *engine.Change) {
				c.KeepRun, c.KeepAttempt, c.Handler = false, false, probetest.NewHandler(failure.After(250*ms))
			})
		}
		r.wantCached(results.Failure)
	})
	bubble(t, "pause cancels the attempt under way", func(t *testing.T) {
		r := newRig(t, probe.Readiness, probetest.Hang(), success).run()
		r.change(func(c *engine.Change) { c.Paused = true })
		r.tick()
		r.wantCalls(1)
		r.wantRun(0, false)
	})
	bubble(t, "shorter initial delay takes effect at once", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.InitialDelay, r.cfg.Spec.Period = time.Minute, time.Hour
		r.run().wait(time.Second)
		r.change(func(c *engine.Change) { c.Spec.InitialDelay = 3 * time.Second })
		r.wait(2 * time.Second)
		r.wantTimes(3000)
	})
}

func TestUpdateOtherState(t *testing.T) {
	for name, edit := range map[string]func(*engine.Change){
		"handler":   func(c *engine.Change) { c.KeepRun, c.KeepAttempt = false, false },
		"secrets":   func(c *engine.Change) { c.KeepAttempt = false },
		"target":    func(c *engine.Change) { c.KeepRun, c.Target.Port = false, 99 },
		"timeout":   func(c *engine.Change) { c.Spec.Timeout += ms },
		"threshold": func(c *engine.Change) { c.Spec.FailureThreshold = 9 },
		"policy":    func(c *engine.Change) { c.Spec.ErrorPolicy = probe.CountAsFailure },
	} {
		some(t, "change of the "+name+" ends the hold after a failure", []probe.Kind{probe.Liveness, probe.Startup}, func(t *testing.T, kind probe.Kind) {
			r := newRig(t, kind, failure, success).run()
			r.wait(300 * ms)
			r.wantRun(0, true)
			r.change(edit)
			r.wantTimes(0, 300)
			r.wantCached(results.Success)
		})
		bubble(t, "change of the "+name+" keeps the hold of a container that has started", func(t *testing.T) {
			r := newRig(t, probe.Startup).run()
			r.change(edit)
			r.tick()
			r.wantCalls(1)
			r.wantCached(results.Success)
		})
	}
	bubble(t, "new period and delay keep the hold", func(t *testing.T) {
		r := newRig(t, probe.Liveness, failure).run()
		r.change(func(c *engine.Change) { c.Spec.Period, c.Spec.InitialDelay = 2*time.Second, time.Millisecond })
		r.tick()
		r.wantCalls(1)
		r.wantRun(0, true)
	})
	bubble(t, "update pauses and resumes", func(t *testing.T) {
		r := newRig(t, probe.Readiness).run()
		r.change(func(c *engine.Change) { c.Paused = true })
		r.wait(3 * time.Second)
		r.wantCalls(1)
		r.change(func(*engine.Change) {})
		r.tick()
		r.wantCalls(2)
	})
	for _, paused := range []bool{false, true} {
		bubble(t, fmt.Sprintf("a change that says nothing of pauses leaves paused %t", paused), func(t *testing.T) {
			r := newRig(t, probe.Readiness)
			r.cfg.Paused = !paused
			r.run()
			if paused {
				r.w.Pause()
			} else {
				r.w.Resume()
			}
			r.change(func(c *engine.Change) { c.Paused, c.KeepPaused = !paused, true })
			if got := r.w.Status().Paused; got != paused {
				t.Errorf("paused %t", got)
			}
		})
	}
	bubble(t, "target is replaced", func(t *testing.T) {
		r := newRig(t, probe.Readiness).run()
		r.change(func(c *engine.Change) {
			c.Target.Port = 99
		})
		r.tick()
		if got := r.handler.Calls()[1].Request.Target; got != (probe.Target{Host: "10.0.0.1", Port: 99}) {
			t.Errorf("target %v", got)
		}
	})
	bubble(t, "stopped worker does not change", func(t *testing.T) {
		r := newRig(t, probe.Readiness).run()
		r.w.Stop()
		r.change(func(c *engine.Change) { c.Spec.Period = time.Millisecond })
		r.wait(time.Second)
		r.wantCalls(1)
		if got := r.w.Status().Spec.Period; got != time.Second {
			t.Errorf("period %v", got)
		}
	})
	bubble(t, "update before the first tick keeps its delay", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Delay = 800 * ms
		r.run().wait(100 * ms)
		r.change(func(c *engine.Change) { c.Spec.FailureThreshold = 7 })
		r.wait(1800 * ms)
		r.wantTimes(800, 1800)
	})
}
