package agent

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
)

// reloadState is the outcome of the last reload. What has an error is as it was before.
type reloadState struct {
	at        time.Time
	manifests error
	plugins   error
}

// load reads the manifests and checks all that can be checked without running them.
// stamp is what the files looked like before they were read.
func (a *Agent) load() (pods []*v1.Pod, stamp string, err error) {
	stamp = a.source.Stamp()
	loaded, err := a.source.Load()
	if err != nil {
		return nil, stamp, err
	}
	for _, w := range loaded.Warnings {
		a.log.Warn("unsupported field", "place", w.Error())
	}
	return loaded.Pods, stamp, nil
}

// check prepares every probe of pod, so that a missing plugin or a bad config is known
// before anything is started or changed.
func (a *Agent) check(pod *v1.Pod) []error {
	m, err := manager.New(manager.Config{Status: noPods{}, Handlers: a.handlers, ResolveSecret: a.secret})
	if err != nil {
		return []error{err}
	}
	defer m.Close()
	return []error{m.AddPod(context.Background(), pod)}
}

// noPods knows no pod's status, so that no worker makes an attempt.
type noPods struct{}

// PodStatus implements [manager.StatusSource].
func (noPods) PodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

// loop applies the manifests, and brings pods and plugins to what files say when these
// change, until ctx ends.
func (a *Agent) loop(ctx context.Context) {
	a.reloaded(a.apply(ctx, "start"), nil)
	ticker := time.NewTicker(a.cfg.PollInterval)
	defer ticker.Stop()
	var manifests, plugins changing
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.cfg.Reload:
			_ = a.again(ctx, "signal", true, true) // logged
		case answer := <-a.reloads:
			answer <- a.again(ctx, "request", true, true)
		case <-ticker.C:
			newManifests, newPlugins := manifests.rested(a.source.Stamp(), a.stamp), plugins.rested(a.handlers.stamp(), a.pluginStamp)
			if newManifests || newPlugins {
				_ = a.again(ctx, "changed files", newManifests, newPlugins) // logged
			}
			a.handlers.promoteDue(ctx)
		}
	}
}

// changing is the stamp of files that have changed.
type changing struct{ seen string }

// rested reports whether the files, whose stamp is now, are others than those of the
// stamp known, and were no others the last time.
func (c *changing) rested(now, known string) bool {
	rested := now != known && now == c.seen
	c.seen = now
	return rested
}

// again reads plugins and manifests again, those that it is asked to, and applies what is
// good. The plugins come first: the manifests may name a new one. A plugin that was
// refused is tried again with new manifests, since it may be one of the old that it did
// not fit, and manifests that were refused with new plugins.
func (a *Agent) again(ctx context.Context, cause string, manifests, plugins bool) error {
	last := a.lastReload()
	failing, changed := last.plugins != nil, false
	if plugins {
		a.pluginStamp = a.handlers.stamp()
		changed, last.plugins = a.handlers.reload(ctx, cause != "changed files")
		manifests = manifests || changed && last.manifests != nil
	}
	if manifests {
		last.manifests = a.remanifest(ctx, cause)
		if last.manifests == nil && last.plugins != nil {
			changed, last.plugins = a.handlers.reload(ctx, true)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.reloaded(last.manifests, last.plugins)
	switch {
	case last.plugins != nil:
		a.log.Error("plugins cannot all be used; what was there before goes on", "cause", cause, "error", last.plugins.Error())
	case changed || failing:
		a.log.Info("plugins reloaded", "cause", cause)
	}
	return errors.Join(last.manifests, last.plugins)
}

// remanifest reads the manifests again and applies them if they are good.
func (a *Agent) remanifest(ctx context.Context, cause string) error {
	pods, stamp, err := a.load()
	a.stamp = stamp
	if err != nil {
		a.reloaded(err, a.lastReload().plugins)
		a.log.Error("manifests cannot be used; the last good state is kept", "cause", cause, "error", err.Error())
		return err
	}
	a.wanted = pods
	return a.apply(ctx, cause)
}

func (a *Agent) apply(ctx context.Context, cause string) error {
	a.changes.know(a.wanted)
	err := a.pods.Apply(ctx, a.wanted)
	if ctx.Err() != nil {
		return nil // it is about to end all the same
	}
	a.running.Store(true)
	if err != nil {
		a.log.Error("manifests were not applied as a whole", "cause", cause, "error", err.Error())
	} else {
		a.log.Info("manifests applied", "cause", cause, "pods", len(a.wanted))
	}
	return err
}

// reloaded notes how it went with manifests and plugins.
func (a *Agent) reloaded(manifests, plugins error) {
	now := time.Now()
	a.metrics.Reloaded(manifests == nil && plugins == nil, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reload = reloadState{now, manifests, plugins}
}

func (a *Agent) lastReload() reloadState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reload
}

// Reload has manifests, prober.yaml and plugins read again now, and returns when they are
// applied or found to be bad.
func (a *Agent) Reload(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case a.reloads <- answer:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
