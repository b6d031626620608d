package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestUnhealthyPeriod(t *testing.T) {
	ok, bad := probetest.Answer(probe.Success, ""), probetest.Answer(probe.Failure, "")
	rig := func(t *testing.T, kind probe.Kind, steps ...probetest.Step) *rig {
		r := newRig(t, kind, steps...)
		r.cfg.Spec.Period, r.cfg.Spec.UnhealthyPeriod = 10*time.Second, 2*time.Second
		r.cfg.Spec.SuccessThreshold, r.cfg.Spec.FailureThreshold = 1, 2
		return r
	}
	bubble(t, "until the first success, and from the first failure to the next success", func(t *testing.T) {
		r := rig(t, probe.Readiness, bad, bad, bad, ok, ok, bad, ok, bad, bad, bad, ok, ok).run()
		r.wait(70 * time.Second)
		r.wantTimes(0, 2000, 4000, 6000, 16000, 26000, 28000, 38000, 40000, 42000, 44000, 54000, 64000)
	})
	bubble(t, "until the threshold of successes", func(t *testing.T) {
		r := rig(t, probe.Readiness, ok)
		r.cfg.Spec.SuccessThreshold = 3
		r.run().wait(15 * time.Second)
		r.wantTimes(0, 2000, 4000, 14000)
	})
	bubble(t, "may be longer than the period", func(t *testing.T) {
		r := rig(t, probe.Readiness, ok, bad, ok)
		r.cfg.Spec.UnhealthyPeriod = time.Minute
		r.run().wait(100 * time.Second)
		r.wantTimes(0, 10000, 70000, 80000, 90000, 100000)
	})
	bubble(t, "an error changes nothing", func(t *testing.T) {
		r := rig(t, probe.Readiness, ok).run()
		broken := probetest.Error(errors.New("broken"))
		r.does(broken, broken, broken, ok)
		r.wait(25 * time.Second)
		r.wantTimes(0, 10000, 10000, 10000, 20000)
	})
	bubble(t, "the status and the tick have the next due time", func(t *testing.T) {
		r := rig(t, probe.Readiness, bad).run()
		if next := r.lastTick().Next.Sub(r.start); next != 2*time.Second || !r.w.Status().Next.Equal(r.lastTick().Next) {
			t.Errorf("next in %v", next)
		}
	})
	bubble(t, "a new container begins with it", func(t *testing.T) {
		r := rig(t, probe.Readiness, ok).run()
		r.wait(time.Second)
		r.restart("c2")
		r.does(bad)
		r.wait(17 * time.Second)
		r.wantTimes(0, 10000, 12000, 14000, 16000, 18000)
	})
	bubble(t, "a liveness probe begins as successful", func(t *testing.T) {
		r := rig(t, probe.Liveness, ok, bad, ok).run()
		r.wait(25 * time.Second)
		r.wantTimes(0, 10000, 12000, 22000)
	})
	bubble(t, "a change takes effect at once", func(t *testing.T) {
		r := rig(t, probe.Readiness, bad).run()
		r.wait(time.Second)
		r.does(bad, bad, ok)
		r.change(func(c *engine.Change) { c.Spec.UnhealthyPeriod = 5 * time.Second })
		r.wait(30 * time.Second)
		r.wantTimes(0, 5000, 10000, 15000, 25000)
	})
}

func TestJitterVariesUnhealthyPeriod(t *testing.T) {
	bubble(t, "a share of the present period", func(t *testing.T) {
		r := newRig(t, probe.Readiness, probetest.Answer(probe.Failure, ""))
		r.cfg.Spec.UnhealthyPeriod, r.cfg.Spec.Jitter = time.Minute, 0.1
		r.run().wait(500 * time.Minute)
		times := r.callTimes()
		least, most := time.Hour, time.Duration(0)
		for i := 2; i < len(times); i++ {
			d := times[i] - times[i-1]
			least, most = min(least, d), max(most, d)
		}
		if least < 54*time.Second || most > 66*time.Second || most-least < 6*time.Second || len(times) < 490 || len(times) > 510 {
			t.Errorf("%d distances from %v to %v", len(times), least, most)
		}
	})
}

func TestInitialResult(t *testing.T) {
	for initial, want := range map[probe.Result]results.Result{
		probe.Unknown: results.Failure, probe.Success: results.Success, probe.Failure: results.Failure,
	} {
		bubble(t, initial.String(), func(t *testing.T) {
			r := newRig(t, probe.Readiness, probetest.Answer(probe.Failure, ""))
			r.cfg.Spec.Initial, r.cfg.Spec.FailureThreshold, r.cfg.Delay = initial, 2, time.Second
			r.run()
			if s := r.w.Status(); s.Decided != want || s.Info.Initial != initial {
				t.Errorf("before the first tick: %v, initially %v", s.Decided, s.Info.Initial)
			}
			r.wait(time.Second)
			r.wantCached(want)
			r.wait(time.Second)
			r.wantCached(results.Failure)
			r.restart("c2")
			r.wait(time.Second)
			r.wantCached(want)
		})
	}
	bubble(t, "a result of an earlier agent wins", func(t *testing.T) {
		r := newRig(t, probe.Readiness, probetest.Answer(probe.Failure, ""))
		r.cfg.Spec.Initial, r.cfg.Spec.FailureThreshold = probe.Success, 2
		r.become(func(s *worker.State) { s.StartedAt = time.Now().Add(-time.Hour) })
		r.shared.Results[probe.Readiness].Set("c1", results.Failure, &results.Subject{}, results.Cause{})
		r.cfg.Task.PriorID = "c1"
		r.run()
		r.wantCached(results.Failure)
		if i := r.w.Info().Initial; i != probe.Unknown {
			t.Errorf("initially %v", i)
		}
	})
}
