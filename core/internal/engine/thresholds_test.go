package engine_test

import (
	"testing"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// beat is one tick of a script: the answer of the handler, and the expected effects.
type beat struct {
	answer probetest.Step
	want   results.Result
	run    int
	hold   bool
}

// play runs beats, one tick each.
func (r *rig) play(beats []beat) {
	r.t.Helper()
	for i, b := range beats {
		r.does(b.answer)
		if r.w == nil {
			r.run()
		} else {
			r.tick()
		}
		if got := r.cached(r.State().ContainerID); got != b.want {
			r.t.Errorf("tick %d: decided %v, want %v", i+1, got, b.want)
		}
		if s := r.w.Status(); s.Run != b.run || s.OnHold != b.hold || s.Decided != b.want {
			r.t.Errorf("tick %d: run %d, on hold %v, decided %v; want %d, %v, %v", i+1, s.Run, s.OnHold, s.Decided, b.run, b.hold, b.want)
		}
	}
}

func TestThresholds(t *testing.T) {
	bubble(t, "#48 #49 #50 failure threshold", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.FailureThreshold = 3
		for range 2 {
			r.play([]beat{
				{success, results.Success, 1, false},
				{success, results.Success, 2, false},
				{success, results.Success, 3, false},
				{failure, results.Success, 1, false},
				{failure, results.Success, 2, false},
				{failure, results.Failure, 3, false},
				{failure, results.Failure, 4, false},
				{failure, results.Failure, 5, false},
			})
		}
	})
	bubble(t, "#51 #52 success threshold", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.SuccessThreshold = 3
		for range 2 {
			r.play([]beat{
				{success, results.Failure, 1, false},
				{success, results.Failure, 2, false},
				{success, results.Success, 3, false},
				{success, results.Success, 4, false},
				{success, results.Success, 5, false},
				{failure, results.Failure, 1, false},
			})
		}
	})
	bubble(t, "#53 startup success puts the worker on hold", func(t *testing.T) {
		r := newRig(t, probe.Startup)
		r.cfg.Spec.FailureThreshold = 3
		r.play([]beat{{success, results.Success, 0, true}, {failure, results.Success, 0, true}})
		r.wantCalls(1)
	})
	bubble(t, "#54 #55 startup failures", func(t *testing.T) {
		r := newRig(t, probe.Startup)
		r.cfg.Spec.FailureThreshold = 3
		r.play([]beat{
			{failure, results.Unknown, 1, false},
			{failure, results.Unknown, 2, false},
			{failure, results.Failure, 0, true},
		})
	})
	bubble(t, "#60 run of a failing liveness probe", func(t *testing.T) {
		r := newRig(t, probe.Liveness)
		r.cfg.Spec.FailureThreshold = 3
		r.play([]beat{
			{success, results.Success, 1, false},
			{failure, results.Success, 1, false},
			{failure, results.Success, 2, false},
			{failure, results.Failure, 0, true},
		})
	})
	bubble(t, "#61 run of a failing startup probe", func(t *testing.T) {
		r := newRig(t, probe.Startup)
		r.cfg.Spec.FailureThreshold = 3
		r.play([]beat{
			{failure, results.Unknown, 1, false},
			{failure, results.Unknown, 2, false},
			{failure, results.Failure, 0, true},
		})
	})
	bubble(t, "liveness continues after a success", func(t *testing.T) {
		r := newRig(t, probe.Liveness)
		r.play([]beat{{success, results.Success, 1, false}, {success, results.Success, 2, false}, {success, results.Success, 3, false}})
	})
	bubble(t, "Tick has the run that decided, though the hold resets it", func(t *testing.T) {
		r := newRig(t, probe.Liveness, failure)
		r.cfg.Spec.FailureThreshold = 2
		r.run().tick()
		tick := r.lastTick()
		if tick.Run != 2 || tick.Threshold != 2 || !tick.OnHold || !tick.Changed() || tick.After != results.Failure {
			t.Errorf("got %+v", tick)
		}
	})
}

func TestHold(t *testing.T) {
	held := []probe.Kind{probe.Liveness, probe.Startup}
	some(t, "#57 failure puts the worker on hold", held, func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, failure).run()
		r.wantCached(results.Failure)
		r.wantRun(0, true)
	})
	some(t, "#58 worker on hold does not probe", held, func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, failure, success).run()
		r.wait(10 * time.Second)
		r.w.Trigger()
		r.wait(time.Second)
		r.wantCalls(1)
		r.wantCached(results.Failure)
		r.wantRun(0, true)
	})
	some(t, "#59 new container ends the hold", held, func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, failure, success).run()
		r.restart("c2")
		r.tick()
		r.wantCached(results.Success)
		r.wantRun(map[probe.Kind]int{probe.Liveness: 1, probe.Startup: 0}[kind], kind == probe.Startup)
	})
	bubble(t, "readiness failure does not put the worker on hold", func(t *testing.T) {
		r := newRig(t, probe.Readiness, failure, success).run()
		r.wantRun(1, false)
		r.tick()
		r.wantCached(results.Success)
	})
	bubble(t, "container that stops on hold keeps its result", func(t *testing.T) {
		r := newRig(t, probe.Startup, success).run()
		r.become(func(s *worker.State) { s.Running = false })
		r.tick()
		r.wantCached(results.Success)
		r.wantRun(0, true)
	})
}

func TestNoRestartNoHold(t *testing.T) {
	alone := func(t *testing.T, kind probe.Kind) *rig {
		r := newRig(t, kind)
		r.cfg.Spec.FailureThreshold = 2
		r.cfg.Task.NoRestart = true
		return r
	}
	bubble(t, "liveness", func(t *testing.T) {
		alone(t, probe.Liveness).play([]beat{
			{failure, results.Success, 1, false},
			{failure, results.Failure, 2, false},
			{failure, results.Failure, 3, false},
			{success, results.Success, 1, false},
			{failure, results.Success, 1, false},
			{failure, results.Failure, 2, false},
		})
	})
	bubble(t, "startup holds once it has succeeded", func(t *testing.T) {
		r := alone(t, probe.Startup)
		r.play([]beat{
			{failure, results.Unknown, 1, false},
			{failure, results.Failure, 2, false},
			{failure, results.Failure, 3, false},
			{success, results.Success, 0, true},
			{failure, results.Success, 0, true},
		})
		r.wantCalls(4)
	})
}

func TestOutcomes(t *testing.T) {
	boom := probetest.Error(errBoom)
	each(t, "#75 Failure is a Failure", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, failure).run()
		r.wantCached(results.Failure)
		r.wantCalls(1)
	})
	each(t, "#76 Success is a Success", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, success).run()
		r.wantCached(results.Success)
	})
	each(t, "#77 Warning is a Success", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, warning).run()
		r.wantCached(results.Success)
	})
	each(t, "#77 Warning is a Failure with WarningIsFailure", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, warning)
		r.cfg.Spec.WarningIsFailure = true
		r.run()
		r.wantCached(results.Failure)
	})
	each(t, "#78 Unknown without an error is a Failure, not retried and without an event", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, unknown).run()
		r.wantCached(results.Failure)
		r.wantCalls(1)
		if got := r.sent(); len(got) > 0 {
			t.Errorf("events: %q", got)
		}
	})
	each(t, "#79 error decides nothing", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, boom).run()
		r.wantCached(initial(kind))
		if got := r.lastTick(); got.Err == nil || got.Counted {
			t.Errorf("got %+v", got)
		}
	})
	each(t, "fault of the host decides nothing, also with CountAsFailure", func(t *testing.T, kind probe.Kind) {
		for _, reason := range []probe.Reason{probe.ReasonHostStall, probe.ReasonHostResources} {
			r := newRig(t, kind, probetest.Error(&probe.Error{Reason: reason, Err: errBoom}))
			r.cfg.Spec.ErrorPolicy = probe.CountAsFailure
			r.run()
			r.wantCached(initial(kind))
		}
	})
	for name, compat := range map[string]probe.Compat{"": 0, ", also with CompatHostTrouble": probe.CompatHostTrouble} {
		each(t, "failure of a dependency decides nothing, and is not retried"+name, func(t *testing.T, kind probe.Kind) {
			r := newRig(t, kind, probetest.Error(&probe.Error{Reason: probe.ReasonDependency, Err: errBoom}))
			r.cfg.Spec.ErrorPolicy = probe.CountAsFailure
			r.shared.Compat = compat
			r.run()
			r.wantCached(initial(kind))
			r.wantCalls(1)
		})
	}
	each(t, "#79 error is a Failure with CountAsFailure", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, boom)
		r.cfg.Spec.ErrorPolicy = probe.CountAsFailure
		r.run()
		r.wantCached(results.Failure)
		r.wantCalls(3)
	})
}
