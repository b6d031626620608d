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

// errSuperseded ends a load of manifests that have changed meanwhile.
var errSuperseded = errors.New("the manifests have changed meanwhile")

// newest reads the manifests and checks them; with all, also pods that are the same as
// those that run. A check waits for a plugin that has to be compiled, or that does not say
// whether it takes a config. Such a wait, if it is a long one, is given up when the
// manifests change, since newer ones may not need the plugin, but only once: the second load is finished whatever
// changes, so that steady change cannot keep manifests from being applied.
func (a *Agent) newest(ctx context.Context, all bool) ([]*v1.Pod, error) {
	loading, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	pods, err := a.load(loading, all, giveUp)
	if err != nil && context.Cause(loading) == errSuperseded {
		return a.load(ctx, all, nil)
	}
	return pods, err
}

// awaitChange returns true when a change of the manifests since stamp is due, or false at
// the end of ctx.
func (a *Agent) awaitChange(ctx context.Context, stamp string) bool {
	ticker := time.NewTicker(a.cfg.PollInterval)
	defer ticker.Stop()
	for files := (changing{}); ; {
		select {
		case <-ctx.Done():
			return false
		case now := <-ticker.C:
			if files.due(now, a.source.Stamp(), stamp) {
				return true
			}
		}
	}
}

// load reads the manifests and checks all that can be checked without running them, or,
// without all, what is not the same as that which runs. giveUp, unless nil, ends ctx when
// the manifests change while a plugin is waited for.
func (a *Agent) load(ctx context.Context, all bool, giveUp context.CancelCauseFunc) ([]*v1.Pod, error) {
	a.handlers.begin()
	a.stamp = a.source.Stamp()
	for _, file := range a.secrets.begin() {
		a.log.Info("secret changed", "file", file)
	}
	handlers := within{agent: a, ctx: ctx, stamp: a.stamp, giveUp: giveUp}
	a.source.Check = func(pod *v1.Pod) []error {
		a.secrets.add(pod)
		return a.check(ctx, pod, all, handlers)
	}
	loaded, err := a.source.Load(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	}
	a.secrets.keep()
	for _, w := range loaded.Warnings {
		a.log.Warn("unsupported field", "place", w.Error())
	}
	return loaded.Pods, nil
}

// check prepares every probe of pod, so that a missing plugin or a bad config is known
// before anything is started or changed. Of a pod that runs already that is known.
func (a *Agent) check(ctx context.Context, pod *v1.Pod, all bool, handlers manager.Handlers) []error {
	if ctx.Err() != nil {
		return []error{context.Cause(ctx)}
	}
	if applied := a.applied[pod.UID]; !all && applied != nil && (applied == pod || equality.Semantic.DeepEqual(applied, pod)) {
		return nil // its handlers are known to be in use
	}
	a.handlers.mayUse(pod)
	return checkProbes(ctx, pod, handlers, a.secret)
}

// checkProbes prepares every probe of pod, and drops what that made.
func checkProbes(ctx context.Context, pod *v1.Pod, handlers manager.Handlers, secret func(source, name string) (string, error)) []error {
	m, err := manager.New(manager.Config{Status: noPods{}, Handlers: handlers, ResolveSecret: secret})
	if err != nil {
		return []error{err}
	}
	defer m.Close()
	return []error{m.AddPod(ctx, pod)}
}

// within prepares handlers as long as its context has not ended: [manager.Handlers] knows
// of none.
type within struct {
	agent  *Agent
	ctx    context.Context
	stamp  string                  // of the manifests
	giveUp context.CancelCauseFunc // ends ctx when they change; nil: they may
}

var _ manager.Handlers = within{}

// Prepare implements [manager.Handlers].
func (w within) Prepare(name string, config []byte, target probe.Target) (probe.Handler, error) {
	if w.giveUp != nil {
		waiting, done := context.WithCancel(w.ctx)
		var watching sync.WaitGroup
		watching.Go(func() {
			if w.agent.awaitChange(waiting, w.stamp) {
				w.giveUp(errSuperseded)
			}
		})
		defer watching.Wait()
		defer done()
	}
	return w.agent.handlers.prepare(w.ctx, name, config, target)
}

// noPods knows no pod's status, so that no worker makes an attempt.
type noPods struct{}

// PodStatus implements [manager.StatusSource].
func (noPods) PodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

// apply runs the pods that are wanted, with the secrets that there are now, and notes how
// that went.
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
	err = errors.Join(err, a.refreshSecrets(ctx))
	if ctx.Err() != nil {
		return nil
	}
	last := a.lastReload()
	a.noteManifests(err)
	a.handlers.uses(a.wanted)
	if err != nil && cause == retriedSecrets && textOf(err) == textOf(last.manifests) {
		return err // it is known
	}
	if err != nil {
		a.log.Error("manifests were not applied as a whole", "cause", cause, "error", err.Error())
	} else {
		a.log.Info("manifests applied", "cause", cause, "pods", len(a.wanted))
	}
	return err
}
