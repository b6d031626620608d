package manager_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// interrupted prepares handlers, and calls a function at the first release of one.
type interrupted struct {
	meanwhile func()
	once      sync.Once
}

func (i *interrupted) Prepare(string, []byte, probe.Target) (probe.Handler, error) {
	return &released{probetest.NewHandler(), i}, nil
}

type released struct {
	probe.Handler
	of *interrupted
}

func (r *released) Release() { r.of.once.Do(r.of.meanwhile) }

// A pod that is added while it is being removed has workers and results.
func TestAddPodWhilePodIsRemoved(t *testing.T) {
	bubble(t, "#234 end of a worker does not change its successor", func(t *testing.T) {
		i := &interrupted{}
		r := newRig(t, func(cfg *manager.Config) { cfg.Handlers = i })
		pod := podOf("u", container("a", probe.Startup), container("b", probe.Startup))
		i.meanwhile = func() { r.add(pod) }
		r.store.SetPodStatus(pod, statusOf(starting("a", "c1"), starting("b", "c2")))
		r.add(pod)
		r.m.RemovePod(pod)
		r.wantKeys("u/a/startup", "u/b/startup")
		r.wantCached(probe.Startup, "c1", results.Success)
		r.wantCached(probe.Startup, "c2", results.Success) // on hold: it would not decide again
	})
}

// slowEnd is an observer whose Close blocks for a while, in breach of its contract.
type slowEnd struct{ begun, over chan struct{} }

func (s slowEnd) Observe(worker.Info) worker.ProbeObserver { return s }
func (slowEnd) Tick(*worker.Tick)                          {}
func (slowEnd) Skipped(worker.SkipReason, int)             {}

func (s slowEnd) Close() {
	close(s.begun)
	<-s.over
}

func TestCloseWaitsForObservers(t *testing.T) {
	bubble(t, "Close waits until the observers of a probe that ended in its attempt are closed", func(t *testing.T) {
		observer := slowEnd{make(chan struct{}), make(chan struct{})}
		// The attempt has ended when the handler is released.
		i := &interrupted{meanwhile: func() { <-observer.begun }}
		r := newRig(t, func(cfg *manager.Config) {
			cfg.Handlers, cfg.Observers = hanging{i}, []worker.Observer{observer}
		})
		pod := podOf("u", container("a", probe.Readiness))
		r.store.SetPodStatus(pod, statusOf(running("a", "c1")))
		r.add(pod)
		r.m.RemovePod(pod)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = r.m.Close()
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("the manager is closed, and an observer was not told yet")
		default:
		}
		close(observer.over)
		<-closed
	})
}

// hanging prepares handlers whose attempts wait for the end of their contexts.
type hanging struct{ *interrupted }

func (h hanging) Prepare(string, []byte, probe.Target) (probe.Handler, error) {
	return &released{probetest.NewHandler(probetest.Hang()), h.interrupted}, nil
}

func TestUpdatePodWhilePodIsAdded(t *testing.T) {
	bubble(t, "update takes effect, whichever call starts the worker", func(t *testing.T) {
		r := newRig(t, herd)
		pod := podOf("u", container("web", probe.Readiness))
		changed := pod.DeepCopy()
		changed.Spec.Containers[0].ReadinessProbe.Exec.Command = []string{"changed"}
		changed.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 7
		var once sync.Once
		r.handle = func(_ string, config []byte) (*probetest.Handler, error) {
			if string(config) == `{"command":["changed"]}` {
				once.Do(func() { r.add(pod) }) // the pod before the change
			}
			return probetest.NewHandler(), nil
		}
		r.update(changed)
		if got := r.status("u", "web", probe.Readiness).Spec.Period; got != 7000*ms {
			t.Errorf("the period is %s", got)
		}
	})
}

// During concurrent updates each handler is released exactly once, and not while it is in use.
func TestConcurrentUpdatesReleaseHandlers(t *testing.T) {
	l := &lender{lent: make(map[*loan]bool)}
	m, err := manager.New(manager.Config{Status: new(manager.StatusStore), Handlers: l})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for who := range 4 {
		wg.Go(func() {
			for i := range 500 {
				p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web"}}}}
				p.UID, p.Name = "u", "p"
				p.Annotations = map[string]string{declared.Annotation: fmt.Sprintf(
					"{web: {readiness: {plugin: {name: a, config: {x: %d}}, failureThreshold: %d}}}", i/7%2, who+1)}
				if err := m.UpdatePod(context.Background(), p); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	l.count(t, "updated", 1)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	l.count(t, "closed", 0)
}
