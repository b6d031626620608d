package worker_test

import (
	"testing"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestGates(t *testing.T) {
	each(t, "#25 no pod status: go on, nothing is set", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.state = worker.State{}
		r.run().tick()
		r.wantCalls(0)
		r.wantCached(unset)
		r.wantEnded(false)
	})
	each(t, "#26 the pod has ended: the worker ends, nothing is set", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.state.PodEnded = true
		r.run().tick()
		r.wantCalls(0)
		r.wantCached(unset)
		r.wantEnded(true)
	})
	some(t, "#27 the pod is being deleted: the worker ends", []probe.Kind{probe.Liveness, probe.Startup}, func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, failure)
		r.state.Deleting = true
		r.run().tick()
		r.wantCalls(0)
		r.wantEnded(true)
	})
	bubble(t, "#27 the pod is being deleted: readiness goes on", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.state.Deleting = true
		r.run().tick()
		r.wantCalls(2)
		r.wantCached(results.Success)
		r.wantEnded(false)
	})
	each(t, "#28 the container has no status: go on, nothing is set", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.state = worker.State{Found: true}
		r.run().tick()
		r.wantCalls(0)
		if got := r.w.Status().Decided; got != initial(kind) {
			t.Errorf("decided: %v, want the initial value %v", got, initial(kind))
		}
		r.wantEnded(false)
	})
	each(t, "#29 the container waits: go on, Failure", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.state.Running = false
		r.run().tick()
		r.wantCalls(0)
		r.wantCached(results.Failure)
		r.wantEnded(false)
	})
	each(t, "#30 the container is terminated for good: the worker ends", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.state.Running, r.state.MayRestart = false, false
		r.run().tick()
		r.wantCalls(0)
		r.wantEnded(true)
		r.wantCached(unset) // an ended worker leaves nothing behind
	})
	each(t, "#31 the container runs: go on, Success", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind).run()
		r.wantCalls(1)
		r.wantCached(results.Success)
		r.wantEnded(false)
	})
}

func TestInitialDelay(t *testing.T) {
	each(t, "#32 the initial delay is long over: go on, Success", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.cfg.Spec.InitialDelay = -100 * time.Second
		r.run()
		r.wantCached(results.Success)
	})
	each(t, "#46 just started: go on, the initial value", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.cfg.Spec.InitialDelay = 10 * time.Second
		r.run()
		r.wantCalls(0)
		r.wantCached(initial(kind))
		r.wantEnded(false)
	})
	each(t, "#47 started 100 s ago: Success", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.cfg.Spec.InitialDelay = 10 * time.Second
		r.run()
		r.become(func(s *worker.State) { s.StartedAt = time.Now().Add(-100 * time.Second) })
		r.tick()
		r.wantCalls(1)
		r.wantCached(results.Success)
	})
	bubble(t, "the initial delay is held against whole seconds", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.InitialDelay = 2 * time.Second
		r.state.StartedAt = time.Now().Add(-1999 * time.Millisecond)
		r.run()
		r.wantCalls(0)
		r.become(func(s *worker.State) { s.StartedAt = time.Now().Add(-time.Second) })
		r.tick()
		r.wantCalls(1)
	})
	bubble(t, "a start less than a second ahead of the agent's clock is no delay", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.state.StartedAt = time.Now().Add(900 * time.Millisecond)
		r.run()
		r.wantCalls(1)
	})
	bubble(t, "an initial delay below a second is exact", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.InitialDelay, r.cfg.Spec.Period = 250*time.Millisecond, 100*time.Millisecond
		r.run().wait(299 * time.Millisecond)
		r.wantCalls(0)
		r.wait(time.Millisecond)
		r.wantCalls(1)
	})
	bubble(t, "ticks before the initial delay are skipped, none waits for it", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.InitialDelay, r.cfg.Spec.Period = 15*time.Second, 10*time.Second
		r.run().wait(19 * time.Second)
		r.wantCalls(0)
		r.wait(time.Second)
		r.wantCalls(1)
	})
}

func TestStartedGate(t *testing.T) {
	bubble(t, "#64 liveness is not probed before the container has started", func(t *testing.T) {
		r := newRig(t, probe.Liveness, failure)
		r.state.Started = false
		r.run().tick()
		r.wantCalls(0)
		r.wantCached(results.Success)
		r.become(func(s *worker.State) { s.Started = true })
		r.tick()
		r.wantCached(results.Failure)
	})
	bubble(t, "#65 startup is not probed once the container has started", func(t *testing.T) {
		r := newRig(t, probe.Startup, failure)
		r.cfg.Spec.FailureThreshold = 2
		r.run()
		r.wantCached(results.Unknown)
		r.does(success)
		r.tick()
		r.wantCached(results.Success)
		r.become(func(s *worker.State) { s.Started = true })
		r.does(failure)
		r.wait(5 * time.Second)
		r.wantCached(results.Success)
		r.wantCalls(2)
		r.wantEnded(false) // it is there for the container's next start
	})
}

func TestSeeding(t *testing.T) {
	anEarlier, later := -5*time.Minute, time.Duration(0)
	for _, tc := range []struct {
		name    string
		compat  probe.Compat
		started time.Duration // of the container, since the agent's start
		sidecar bool
		prior   string
		want    map[probe.Kind]results.Result
	}{
		{"#66 status on restart, after the agent's", probe.CompatStatusOnRestart, later, false, "c1",
			map[probe.Kind]results.Result{probe.Liveness: results.Success, probe.Readiness: results.Failure, probe.Startup: results.Unknown}},
		{"#66 status on restart, before the agent's", probe.CompatStatusOnRestart, anEarlier, false, "c1",
			map[probe.Kind]results.Result{probe.Liveness: results.Success, probe.Readiness: results.Failure, probe.Startup: results.Unknown}},
		{"#67 before the agent's", 0, anEarlier, false, "c1",
			map[probe.Kind]results.Result{probe.Liveness: unset, probe.Readiness: unset, probe.Startup: unset}},
		{"#67 before the agent's, kubelet", kubelet, anEarlier, false, "",
			map[probe.Kind]results.Result{probe.Liveness: unset, probe.Readiness: unset, probe.Startup: unset}},
		{"#68 after the agent's", 0, later, false, "c1",
			map[probe.Kind]results.Result{probe.Liveness: results.Success, probe.Readiness: results.Failure, probe.Startup: results.Unknown}},
		{"#68 after the agent's, kubelet", kubelet, later, false, "c1",
			map[probe.Kind]results.Result{probe.Liveness: results.Success, probe.Readiness: results.Failure, probe.Startup: results.Unknown}},
		{"#68 within the grace before the agent's", 0, -10 * time.Second, false, "c1",
			map[probe.Kind]results.Result{probe.Liveness: results.Success, probe.Readiness: results.Failure, probe.Startup: results.Unknown}},
		{"#69 sidecar that had started before the agent", 0, anEarlier, true, "c1",
			map[probe.Kind]results.Result{probe.Liveness: unset, probe.Readiness: unset, probe.Startup: results.Success}},
		{"#69 sidecar that had started before the agent, kubelet", kubelet, anEarlier, true, "",
			map[probe.Kind]results.Result{probe.Liveness: unset, probe.Readiness: unset, probe.Startup: results.Success}},
		{"#231 another container than the agent before knew", 0, anEarlier, false, "c0",
			map[probe.Kind]results.Result{probe.Liveness: results.Success, probe.Readiness: results.Failure, probe.Startup: results.Unknown}},
		{"#231 another sidecar than the agent before knew", 0, anEarlier, true, "c0",
			map[probe.Kind]results.Result{probe.Liveness: results.Success, probe.Readiness: results.Failure, probe.Startup: results.Unknown}},
	} {
		each(t, tc.name, func(t *testing.T, kind probe.Kind) {
			r := newRig(t, kind)
			r.shared.Compat = tc.compat
			r.cfg.Container.Sidecar, r.cfg.Container.PriorID = tc.sidecar, tc.prior
			r.state.StartedAt = time.Now().Add(tc.started)
			r.state.Started = tc.sidecar || kind != probe.Startup
			r.cfg.Spec.InitialDelay = time.Hour // seeded, and never probed
			r.run()
			r.wantCached(tc.want[kind])
			r.wantCalls(0)
		})
	}
	bubble(t, "#69 a stale Started of a new sidecar counts for nothing", func(t *testing.T) {
		if got := seedsOfFreshSidecar(t, 0); len(got) != 1 || got[0] != results.Unknown {
			t.Errorf("set %v, want UNKNOWN only", got)
		}
	})
	bubble(t, "#69 a stale Started of a new sidecar, kubelet: set and taken back", func(t *testing.T) {
		r := newRig(t, probe.Startup)
		r.shared.Compat = kubelet
		r.cfg.Container.Sidecar, r.state.Started = true, true
		r.run()
		r.wantCached(results.Unknown)
	})
	bubble(t, "a seeded result is a change that readers are told of", func(t *testing.T) {
		if got := seedsOfFreshSidecar(t, probe.CompatStatusOnRestart); len(got) != 1 || got[0] != results.Unknown {
			t.Errorf("set %v, want UNKNOWN only", got)
		}
	})
}

// seedsOfFreshSidecar returns what a reader sees of a sidecar that was started after
// the agent, and whose status says that it has started.
func seedsOfFreshSidecar(t *testing.T, compat probe.Compat) (seen []results.Result) {
	r := newRig(t, probe.Startup)
	r.shared.Compat = compat
	r.cfg.Container.Sidecar, r.state.Started = true, true
	r.t.Cleanup(r.shared.Results[probe.Startup].Close)
	updates := r.shared.Results[probe.Startup].Updates()
	r.run()
	for {
		select {
		case u := <-updates:
			seen = append(seen, u.Result)
		case <-time.After(time.Millisecond):
			return seen
		}
	}
}

func TestNewContainer(t *testing.T) {
	each(t, "a new container ID forgets the old one", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind).run()
		r.restart("c2")
		r.does(probetest.Hang())
		r.tick()
		if got := r.cached("c1"); got != unset {
			t.Errorf("the old container still has %v", got)
		}
		r.wantCached(initial(kind))
	})
	bubble(t, "#230 a new container starts with a run of its own", func(t *testing.T) {
		r := newRig(t, probe.Liveness, failure)
		r.cfg.Spec.FailureThreshold = 3
		r.run().tick()
		r.wantRun(2, false)
		r.restart("c2")
		r.tick()
		r.wantRun(1, false)
		r.wantCached(results.Success)
	})
	bubble(t, "#230 a new container inherits the run, kubelet", func(t *testing.T) {
		r := newRig(t, probe.Liveness, failure)
		r.shared.Compat = kubelet
		r.cfg.Spec.FailureThreshold = 3
		r.run().tick()
		r.wantRun(2, false)
		r.restart("c2")
		r.tick()
		r.wantCached(results.Failure)
	})
	bubble(t, "#230 a success threshold starts anew with a new container", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.SuccessThreshold = 3
		r.run().wait(2 * time.Second)
		r.wantCached(results.Success)
		r.restart("c2")
		r.tick()
		r.wantCached(results.Failure)
		r.wait(2 * time.Second)
		r.wantCached(results.Success)
	})
	bubble(t, "#230 one success decides for the new container, kubelet", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.shared.Compat = probe.CompatKeepRun
		r.cfg.Spec.SuccessThreshold = 3
		r.run().wait(2 * time.Second)
		r.restart("c2")
		r.tick()
		r.wantCached(results.Success)
	})
}
