package engine_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestGates(t *testing.T) {
	each(t, "#25 pod without a status: goes on, nothing is set", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.state = worker.State{}
		r.run().tick()
		r.wantCalls(0)
		r.wantCached(unset)
		r.wantEnded(false)
	})
	each(t, "#26 pod has ended: worker ends, nothing is set", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.state.PodEnded = true
		r.run().tick()
		r.wantCalls(0)
		r.wantCached(unset)
		r.wantEnded(true)
	})
	some(t, "#27 pod is being deleted: worker ends", []probe.Kind{probe.Liveness, probe.Startup}, func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind, failure)
		r.state.Deleting = true
		r.run().tick()
		r.wantCalls(0)
		r.wantEnded(true)
	})
	bubble(t, "#27 pod is being deleted: readiness goes on", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.state.Deleting = true
		r.run().tick()
		r.wantCalls(2)
		r.wantCached(results.Success)
		r.wantEnded(false)
	})
	each(t, "#28 container has no status: goes on, nothing is set", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.state = worker.State{Found: true}
		r.run().tick()
		r.wantCalls(0)
		if got := r.w.Status().Decided; got != initial(kind) {
			t.Errorf("decided: %v, want the initial value %v", got, initial(kind))
		}
		r.wantEnded(false)
	})
	each(t, "#29 container waits: goes on, Failure", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.state.Running = false
		r.run().tick()
		r.wantCalls(0)
		r.wantCached(results.Failure)
		r.wantEnded(false)
	})
	each(t, "#30 container is terminated and not restarted: worker ends", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.state.Running, r.state.Final = false, true
		r.run().tick()
		r.wantCalls(0)
		r.wantEnded(true)
		r.wantCached(unset) // an ended worker leaves nothing behind
	})
	each(t, "#31 container runs: goes on, Success", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind).run()
		r.wantCalls(1)
		r.wantCached(results.Success)
		r.wantEnded(false)
	})
}

// TestResultOfEndingWorker reads the last result from the updates, because the end of the worker removes it
// from the cache.
func TestResultOfEndingWorker(t *testing.T) {
	deleting := func(s *worker.State) { s.Deleting = true }
	terminated := func(s *worker.State) { s.Running, s.Final = false, true }
	for _, tc := range []struct {
		name  string
		kinds []probe.Kind
		edit  func(*worker.State)
		want  []results.Result
	}{
		{"#26 pod has ended: nothing is set", probe.Kinds[:], func(s *worker.State) { s.PodEnded = true }, nil},
		{"#27 pod is being deleted: Success", []probe.Kind{probe.Liveness, probe.Startup}, deleting, []results.Result{results.Success}},
		{"#30 #63 container is terminated and not restarted: Failure", probe.Kinds[:], terminated, []results.Result{results.Failure}},
	} {
		some(t, tc.name, tc.kinds, func(t *testing.T, kind probe.Kind) {
			r := newRig(t, kind)
			tc.edit(&r.state)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			updates := results.Subscribe(ctx, r.shared.Results[kind])
			r.run()
			r.wantEnded(true)
			var got []results.Result
			for u := range updates {
				if !u.Removed {
					got = append(got, u.Result)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("results %v, want %v", got, tc.want)
			}
		})
	}
}

// Reported as kubernetes 118396, 130393; moby 46747.
func TestInitialDelay(t *testing.T) {
	each(t, "#32 initial delay is over: goes on, Success", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.cfg.Spec.InitialDelay = -100 * time.Second
		r.run()
		r.wantCached(results.Success)
	})
	each(t, "#46 container has just started: goes on, initial result", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.cfg.Spec.InitialDelay = 10 * time.Second
		r.run()
		r.wantCalls(0)
		r.wantCached(initial(kind))
		r.wantEnded(false)
	})
	each(t, "#47 container started 100 s ago: Success", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind)
		r.cfg.Spec.InitialDelay = 10 * time.Second
		r.run()
		r.become(func(s *worker.State) { s.StartedAt = time.Now().Add(-100 * time.Second) })
		r.tick()
		r.wantCalls(1)
		r.wantCached(results.Success)
	})
	bubble(t, "initial delay is compared with whole seconds", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.InitialDelay = 2 * time.Second
		r.state.StartedAt = time.Now().Add(-1999 * time.Millisecond)
		r.shared.Compat = kubelet
		r.run()
		r.wantCalls(0)
		r.become(func(s *worker.State) { s.StartedAt = time.Now().Add(-time.Second) })
		r.tick()
		r.wantCalls(1)
	})
	bubble(t, "start less than a second in the future is no delay", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.state.StartedAt = time.Now().Add(900 * time.Millisecond)
		r.run()
		r.wantCalls(1)
	})
	bubble(t, "initial delay below a second is exact", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.cfg.Spec.InitialDelay, r.cfg.Spec.Period = 250*time.Millisecond, 100*time.Millisecond
		r.run().wait(249 * time.Millisecond)
		r.wantCalls(0)
		r.wait(time.Millisecond)
		r.wantCalls(1)
	})
	bubble(t, "ticks before the end of the initial delay are skipped, kubelet", func(t *testing.T) {
		r := newRig(t, probe.Readiness)
		r.shared.Compat = kubelet
		r.cfg.Spec.InitialDelay, r.cfg.Spec.Period = 15*time.Second, 10*time.Second
		r.run().wait(19 * time.Second)
		r.wantCalls(0)
		r.wait(time.Second)
		r.wantCalls(1)
	})
}

// A probe makes its first attempt at the end of the initial delay, and ticks periodically from there.
func TestFirstAttempt(t *testing.T) {
	for _, c := range []struct {
		name          string
		delay, period time.Duration
		want          []time.Duration
	}{
		{"a short period", 15 * time.Second, 10 * time.Second, []time.Duration{15 * time.Second, 25 * time.Second, 35 * time.Second}},
		{"a delay of a multiple of the period", 20 * time.Second, 10 * time.Second, []time.Duration{20 * time.Second, 30 * time.Second}},
		{"a long period", 60 * time.Second, 24 * time.Hour, []time.Duration{time.Minute, 24*time.Hour + time.Minute}},
		{"a fraction of a second", 1500 * ms, time.Minute, []time.Duration{1500 * ms, 61500 * ms}},
	} {
		bubble(t, "comes when the initial delay ends: "+c.name, func(t *testing.T) {
			r := newRig(t, probe.Readiness)
			r.cfg.Spec.InitialDelay, r.cfg.Spec.Period = c.delay, c.period
			r.run().wait(c.want[len(c.want)-1] + time.Second)
			if got := r.callTimes(); !slices.Equal(got, c.want) {
				t.Errorf("attempts after %v, want %v", got, c.want)
			}
		})
	}
	for _, compat := range []probe.Compat{0, kubelet} {
		bubble(t, fmt.Sprintf("comes within 10 s of the start of a container, but for the kubelet: %b", compat), func(t *testing.T) {
			r := newRig(t, probe.Liveness)
			r.shared.Compat = compat
			task := &worker.Task{Subject: r.cfg.Task.Subject}
			task.SetState(worker.State{Found: true})
			r.cfg.Task, r.cfg.Spec.Period = task, 24*time.Hour
			r.run().wait(time.Hour)
			r.wantCalls(0)
			task.SetState(worker.Running("c1", time.Now()))
			r.wait(11 * time.Second)
			if compat == kubelet {
				r.wantCalls(0)
				return
			}
			r.wantCalls(1)
			r.wait(time.Hour)
			r.wantCalls(1)
			task.SetState(worker.Stopped("c1"))
			r.wait(24 * time.Hour)
			task.SetState(worker.Running("c2", time.Now()))
			r.wait(11 * time.Second)
			r.wantCalls(2)
		})
	}
}

// The host's clock is set, or differs from the clock of the machine that wrote StartedAt.
//
// Reported as kubernetes 123898.
func TestStartedAtOfAnotherClock(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d) } // the start time of a bubble
	for name, started := range map[string]time.Time{
		"zero": {}, "long ago": time.Unix(-1<<40, 0), "an hour ahead": at(time.Hour), "the year 9999": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		"the last time": time.Unix(1<<62, 0), "the first time": time.Unix(-1<<62, 0), "half a second ahead": at(500 * ms),
	} {
		for delay, latest := range map[time.Duration]time.Duration{0: 0, time.Minute: time.Minute, math.MaxInt64: math.MaxInt64, math.MinInt64: 0} {
			if started.Year() < 1980 { // earlier than any delay
				latest = 0
			}
			bubble(t, fmt.Sprintf("%s, delay %v", name, delay), func(t *testing.T) {
				r := newRig(t, probe.Readiness)
				r.state.StartedAt, r.cfg.Spec.InitialDelay = started, delay
				r.run().wait(2 * time.Minute)
				got := r.callTimes()
				if latest == math.MaxInt64 {
					if len(got) != 0 {
						t.Errorf("attempts after %v", got)
					}
				} else if len(got) == 0 || got[0] > latest {
					t.Errorf("attempts after %v, want the first within %v", got, latest)
				}
				if gate := r.w.Status().Gate; (gate == "") != (latest < math.MaxInt64) || strings.Contains(gate, "-") {
					t.Errorf("gate %q", gate)
				}
			})
		}
	}
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
		r.wantEnded(false) // it waits for the container's next start
	})
}

func TestSeeding(t *testing.T) {
	anEarlier, later := -5*time.Minute, time.Duration(0)
	for _, tc := range []struct {
		name    string
		compat  probe.Compat
		started time.Duration // start of the container, relative to the agent's start
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
			r.cfg.Task.Sidecar, r.cfg.Task.PriorID = tc.sidecar, tc.prior
			r.state.StartedAt = time.Now().Add(tc.started)
			r.state.Started = tc.sidecar || kind != probe.Startup
			r.cfg.Spec.InitialDelay = time.Hour // seeded, and never probed
			r.run()
			r.wantCached(tc.want[kind])
			r.wantCalls(0)
		})
	}
	bubble(t, "#69 stale Started of a new sidecar has no effect", func(t *testing.T) {
		if got := seedsOfFreshSidecar(t, 0); len(got) != 1 || got[0] != results.Unknown {
			t.Errorf("set %v, want UNKNOWN only", got)
		}
	})
	bubble(t, "#69 stale Started of a new sidecar is set and reset, kubelet", func(t *testing.T) {
		r := newRig(t, probe.Startup)
		r.shared.Compat = kubelet
		r.cfg.Task.Sidecar, r.state.Started = true, true
		r.run()
		r.wantCached(results.Unknown)
	})
	bubble(t, "seeded result is sent to readers", func(t *testing.T) {
		if got := seedsOfFreshSidecar(t, probe.CompatStatusOnRestart); len(got) != 1 || got[0] != results.Unknown {
			t.Errorf("set %v, want UNKNOWN only", got)
		}
	})
}

// seedsOfFreshSidecar returns the results that a reader gets for a sidecar that started after the agent,
// and whose status has started: true.
func seedsOfFreshSidecar(t *testing.T, compat probe.Compat) (seen []results.Result) {
	r := newRig(t, probe.Startup)
	r.shared.Compat = compat
	r.cfg.Task.Sidecar, r.state.Started = true, true
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
	each(t, "result of the old container ID is removed", func(t *testing.T, kind probe.Kind) {
		r := newRig(t, kind).run()
		r.restart("c2")
		r.does(probetest.Hang())
		r.tick()
		if got := r.cached("c1"); got != unset {
			t.Errorf("the old container still has %v", got)
		}
		r.wantCached(initial(kind))
	})
	bubble(t, "#230 new container starts a new run", func(t *testing.T) {
		r := newRig(t, probe.Liveness, failure)
		r.cfg.Spec.FailureThreshold = 3
		r.run().tick()
		r.wantRun(2, false)
		r.restart("c2")
		r.tick()
		r.wantRun(1, false)
		r.wantCached(results.Success)
	})
	bubble(t, "#230 new container inherits the run, kubelet", func(t *testing.T) {
		r := newRig(t, probe.Liveness, failure)
		r.shared.Compat = kubelet
		r.cfg.Spec.FailureThreshold = 3
		r.run().tick()
		r.wantRun(2, false)
		r.restart("c2")
		r.tick()
		r.wantCached(results.Failure)
	})
	bubble(t, "#230 success threshold counts only results of the new container", func(t *testing.T) {
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
