package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

// errSuperseded ends the look at manifests that have changed meanwhile.
var errSuperseded = errors.New("the manifests have changed meanwhile")

// newest reads the manifests. What would take long, since a plugin has to be compiled
// first or does not say whether it takes a config, is given up when they change: the next
// may not need it. With all, pods are checked that are the same as those that run.
func (a *Agent) newest(ctx context.Context, all bool) (pods []*v1.Pod, err error) {
	for {
		loading, cancel := context.WithCancelCause(ctx)
		stamp := a.source.Stamp()
		var watching sync.WaitGroup
		watching.Go(func() {
			if a.awaitChange(loading, stamp) {
				cancel(errSuperseded)
			}
		})
		pods, err = a.load(loading, all)
		superseded := err != nil && context.Cause(loading) == errSuperseded
		cancel(nil)
		watching.Wait()
		if !superseded {
			a.stamp = stamp
			return pods, err
		}
	}
}

// awaitChange returns when the manifests have changed since stamp, and have rested, or
// reports false at the end of ctx.
func (a *Agent) awaitChange(ctx context.Context, stamp string) bool {
	ticker := time.NewTicker(a.cfg.PollInterval)
	defer ticker.Stop()
	for files := (changing{}); ; {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
			if files.rested(a.source.Stamp(), stamp) {
				return true
			}
		}
	}
}

// load reads the manifests and checks all that can be checked without running them, or,
// without all, what is not the same as that which runs.
func (a *Agent) load(ctx context.Context, all bool) ([]*v1.Pod, error) {
	a.handlers.begin()
	a.source.Check = func(pod *v1.Pod) []error { return a.check(ctx, pod, all) }
	loaded, err := a.source.Load()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	for _, w := range loaded.Warnings {
		a.log.Warn("unsupported field", "place", w.Error())
	}
	return loaded.Pods, nil
}

// check prepares every probe of pod, so that a missing plugin or a bad config is known
// before anything is started or changed. Of a pod that runs already that is known.
func (a *Agent) check(ctx context.Context, pod *v1.Pod, all bool) []error {
	if ctx.Err() != nil {
		return []error{context.Cause(ctx)}
	}
	a.handlers.mayUse(pod)
	if !all && a.applied[pod.UID] != nil && equality.Semantic.DeepEqual(a.applied[pod.UID], pod) {
		return nil
	}
	m, err := manager.New(manager.Config{Status: noPods{}, Handlers: within{a.handlers, ctx}, ResolveSecret: a.secret})
	if err != nil {
		return []error{err}
	}
	defer m.Close()
	return []error{m.AddPod(ctx, pod)}
}

// within prepares handlers as long as its context has not ended: [manager.Handlers] knows
// of none.
type within struct {
	handlers *handlerSet
	ctx      context.Context
}

var _ manager.Handlers = within{}

// Prepare implements [manager.Handlers].
func (w within) Prepare(name string, config []byte, target probe.Target) (probe.Handler, error) {
	return w.handlers.prepare(w.ctx, name, config, target)
}

// noPods knows no pod's status, so that no worker makes an attempt.
type noPods struct{}

// PodStatus implements [manager.StatusSource].
func (noPods) PodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

// apply runs the pods that are wanted, and notes how that went.
func (a *Agent) apply(ctx context.Context, cause string) error {
	err := a.pods.Apply(ctx, a.wanted)
	if ctx.Err() != nil {
		return nil // it is about to end all the same
	}
	a.applied = make(map[types.UID]*v1.Pod)
	if err == nil {
		for _, pod := range a.wanted {
			a.applied[pod.UID] = pod
		}
	}
	a.running.Store(true)
	a.noteManifests(err)
	a.handlers.uses(a.wanted)
	if err != nil {
		a.log.Error("manifests were not applied as a whole", "cause", cause, "error", err.Error())
	} else {
		a.log.Info("manifests applied", "cause", cause, "pods", len(a.wanted))
	}
	return err
}
