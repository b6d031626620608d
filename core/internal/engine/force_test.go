package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func (r *rig) force(gate worker.Gate) {
	r.t.Helper()
	r.w.Force(gate)
	synctest.Wait()
}

func (r *rig) wantGate(want worker.Gate) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.gates); n == 0 || r.gates[n-1] != want {
		r.t.Errorf("gates %v, want %v at the end", r.gates, want)
	}
}

func TestForce(t *testing.T) {
	ok, bad := probetest.Answer(probe.Success, ""), probetest.Answer(probe.Failure, "")
	bubble(t, "replaces the result at once, and attempts stop", func(t *testing.T) {
		r := newRig(t, probe.Readiness, ok).run()
		for _, c := range []struct {
			gate worker.Gate
			want results.Result
		}{{worker.ForcedDown, results.Failure}, {worker.ForcedUp, results.Success}, {worker.Drained, results.Failure}} {
			r.force(c.gate)
			r.wantCached(c.want)
			r.wantGate(c.gate)
			if s := r.w.Status(); !s.Paused || s.Gate != c.gate.String() || s.Decided != c.want {
				t.Errorf("%v: %+v", c.gate, s)
			}
		}
		r.wait(time.Minute)
		r.wantCalls(1)
		r.does(bad)
		r.w.Resume()
		synctest.Wait()
		r.wantCalls(2)
		r.wantCached(results.Failure)
		if tick := r.lastTick(); tick.Before != results.Success || tick.After != results.Failure {
			t.Errorf("the first tick after it: %v -> %v", tick.Before, tick.After)
		}
	})
	bubble(t, "a pause ends it, with the result of before", func(t *testing.T) {
		r := newRig(t, probe.Readiness, ok).run()
		r.force(worker.ForcedDown)
		r.w.Pause()
		synctest.Wait()
		r.wantCached(results.Success)
		r.wantGate(worker.Paused)
	})
	bubble(t, "before the first tick", func(t *testing.T) {
		r := newRig(t, probe.Readiness, bad)
		r.cfg.Delay = 5 * time.Second
		r.run()
		r.force(worker.ForcedUp)
		r.wantCached(results.Success)
		r.wait(time.Minute)
		r.wantCalls(0)
	})
	bubble(t, "cancels the attempt under way", func(t *testing.T) {
		r := newRig(t, probe.Readiness, probetest.Hang())
		r.cfg.Spec.Timeout = time.Minute
		r.run()
		r.force(worker.ForcedUp)
		r.wantGate(worker.ForcedUp)
		r.wantCached(results.Success)
	})
	bubble(t, "holds for the next container, but not while none runs", func(t *testing.T) {
		r := newRig(t, probe.Readiness, bad).run()
		r.force(worker.ForcedUp)
		r.become(func(s *worker.State) { s.Running = false })
		r.wait(time.Second)
		r.w.Trigger()
		synctest.Wait()
		r.wantGate(worker.NotRunning)
		r.become(func(s *worker.State) { s.Running = true })
		r.restart("c2")
		r.wait(time.Second)
		r.wantCached(results.Success)
		r.wantCalls(1)
	})
}
