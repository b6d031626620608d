package agent

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
)

// reloadState is the outcome of the last reload.
type reloadState struct {
	at  time.Time
	err error // the last good state is kept
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

// loop applies the manifests, and applies them again when they change, until ctx ends.
func (a *Agent) loop(ctx context.Context) {
	_ = a.apply(ctx, "start") // logged
	ticker := time.NewTicker(a.cfg.PollInterval)
	defer ticker.Stop()
	var seen string // a changed stamp that has not rested yet
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.cfg.Reload:
			_ = a.again(ctx, "signal") // logged
		case answer := <-a.reloads:
			answer <- a.again(ctx, "request")
		case <-ticker.C:
			stamp := a.source.Stamp()
			if stamp != a.stamp && stamp == seen {
				_ = a.again(ctx, "changed files") // logged
			}
			seen = stamp
		}
	}
}

// again reads the manifests again and applies them if they are good.
func (a *Agent) again(ctx context.Context, cause string) error {
	pods, stamp, err := a.load()
	a.stamp = stamp
	if err != nil {
		a.reloaded(err)
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
	a.reloaded(err)
	return err
}

func (a *Agent) reloaded(err error) {
	now := time.Now()
	a.metrics.Reloaded(err == nil, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reload = reloadState{now, err}
}

func (a *Agent) lastReload() reloadState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reload
}

// Reload has the manifests read again now, and returns when they are applied or found
// to be bad.
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
