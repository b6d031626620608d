package engine_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// deciding is an observer that follows the decided result from its notifications.
type deciding struct {
	*rig
	now  results.Result
	told []results.Result
}

var _ worker.DecisionObserver = (*deciding)(nil)

func (d *deciding) Tick(t *worker.Tick) {
	d.rig.Tick(t)
	d.now = t.After
}

func (d *deciding) Decided(r results.Result) {
	d.now, d.told = r, append(d.told, r)
}

// newDeciding returns a rig whose only observer, in Shared.Observers, is deciding.
func newDeciding(t *testing.T, kind probe.Kind, steps ...probetest.Step) *deciding {
	d := &deciding{rig: newRig(t, kind, steps...), now: worker.InitialResult(kind)}
	d.shared.Observers = []worker.Observer{observing{d}}
	d.cfg.Observer = nil
	return d
}

type observing struct{ worker.ProbeObserver }

func (o observing) Observe(worker.Info) worker.ProbeObserver { return o.ProbeObserver }

// want compares the observed result with the worker's status, and the calls of Decided with told.
func (d *deciding) want(when string, want results.Result, told ...results.Result) {
	d.t.Helper()
	if is := d.w.Status().Decided; d.now != want || is != want {
		d.t.Errorf("%s: the observer knows %v, the worker %v, want %v", when, d.now, is, want)
	}
	if !slices.Equal(d.told, told) {
		d.t.Errorf("%s: told %v, want %v", when, d.told, told)
	}
	d.told = nil
}

func TestDecidedNotifiesWithoutAttempt(t *testing.T) {
	t.Run("of a readiness probe", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newDeciding(t, probe.Readiness, probetest.Step{Outcome: probe.Outcome{Result: probe.Success}})
			d.run()
			d.want("after the first tick", results.Success, results.Failure) // Decided gets the initial result of the new container
			d.w.Pause()
			d.restart("c2")
			d.tick()
			d.want("a new container of a paused probe", results.Failure, results.Failure)
			d.w.Resume()
			synctest.Wait()
			d.want("resumed", results.Success)
			d.become(func(s *worker.State) { s.Running = false })
			d.tick()
			d.want("the container does not run", results.Failure, results.Failure)
			d.tick()
			d.want("and still does not", results.Failure)
		})
	})
	t.Run("of a liveness probe", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newDeciding(t, probe.Liveness, probetest.Step{Outcome: probe.Outcome{Result: probe.Failure}})
			d.run()
			d.want("after the first tick", results.Failure, results.Success)
			d.become(func(s *worker.State) { s.Deleting = true })
			d.tick()
			d.want("on hold", results.Failure)
			d.restart("c2")
			d.tick()
			if d.now != results.Success || !slices.Equal(d.told, []results.Result{results.Success}) {
				t.Errorf("a new container while the pod is being deleted: %v, told %v, want Success once", d.now, d.told)
			}
		})
	})
	t.Run("of an earlier worker", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newDeciding(t, probe.Readiness, probetest.Step{Outcome: probe.Outcome{Result: probe.Success}})
			d.shared.Results[probe.Readiness].Set("c1", results.Success, &d.cfg.Task.Subject, results.Cause{})
			d.cfg.Task.PriorID = "c1"
			d.w = engine.New(&d.shared, d.cfg)
			d.want("before the first tick", results.Success, results.Success)
			d.w.Stop()
		})
	})
}
