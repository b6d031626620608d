package agent

import (
	"context"
	"time"

	"github.com/daeace23/prober/internal/filestamp"
)

// The causes of work that nobody asked for.
const (
	changedFiles   = "changed files"
	otherManifests = "other manifests"
	retriedSecrets = "secrets that could not be used"
)

// The loops of an agent. None of them waits for another: what is slow or hangs, a
// registry, a compilation, the validator of a plugin, holds up its own work and no
// other. They ask each other for work by triggers, see [trigger].

// followPods has the source of pods reload when somebody asks for it, and when the files of
// secrets have changed, until ctx ends.
func (a *Agent) followPods(ctx context.Context) {
	var files filestamp.Settling
	changed := func(now time.Time) bool {
		known, stamp := a.secretFiles.Stamps()
		return files.Due(now, stamp, known)
	}
	a.follow(ctx, a.podsTrigger, changed, a.reloadPods)
}

// followPlugins brings the plugins to what prober.yaml and folders have, until ctx ends.
func (a *Agent) followPlugins(ctx context.Context) {
	var files filestamp.Settling
	changed := func(now time.Time) bool { return files.Due(now, a.handlers.Stamp(), a.pluginStamp) }
	a.follow(ctx, a.pluginsTrigger, changed, a.reloadPlugins)
}

// follow does the work when files have changed, and when somebody asks for it, until ctx ends.
func (a *Agent) follow(ctx context.Context, t *trigger, changed func(now time.Time) bool, work func(context.Context, *request) error) {
	ticker := time.NewTicker(a.cfg.PollInterval)
	defer ticker.Stop()
	for {
		r := request{cause: changedFiles}
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
			if r = t.take(); r.cause == "" {
				continue // an earlier wake-up has taken it
			}
		case now := <-ticker.C:
			if !changed(now) {
				continue
			}
		}
		r.done(a.timed(ctx, t, &r, work))
	}
}

// timed does the work, and logs once when it takes long.
func (a *Agent) timed(ctx context.Context, t *trigger, r *request, work func(context.Context, *request) error) error {
	start := time.Now()
	t.setUnderWay(start)
	defer t.setUnderWay(time.Time{})
	cause := r.cause
	long := time.AfterFunc(a.cfg.longReload, func() {
		a.log.Warn("reload takes long", "of", t.name, "cause", cause, "since", start.Format(time.RFC3339))
	})
	defer long.Stop()
	return work(ctx, r)
}

// followRegistries asks the registries of plugins, every so often and when somebody asks for
// it, until ctx ends. What they answer is used at the next reload of the plugins.
func (a *Agent) followRegistries(ctx context.Context) {
	next := time.NewTimer(a.handlers.UntilNextPull())
	defer next.Stop()
	for {
		var r request
		select {
		case <-ctx.Done():
			return
		case <-a.registriesTrigger.wake:
			r = a.registriesTrigger.take()
		case <-next.C:
			r.retry = true
		}
		a.handlers.Pull(ctx, len(r.waiters) > 0, r.retry, a.registryAnswered)
		r.done(nil) // what went wrong is reported by the plugins
		next.Reset(a.handlers.UntilNextPull())
	}
}

// maintainPlugins promotes the shadows that are due, and unloads plugins that nobody uses
// any more, until ctx ends.
func (a *Agent) maintainPlugins(ctx context.Context) {
	ticker := time.NewTicker(a.cfg.PollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if a.handlers.PromoteDue(ctx) {
				a.promoted()
			}
			if a.handlers.UnloadUnused(now) {
				a.pluginsTrigger.request("unused plugins", false)
			}
		}
	}
}

// followSignals reloads everything at each signal, until ctx ends.
func (a *Agent) followSignals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.cfg.Reload:
			_ = a.reloadAll(ctx, "signal") // logged
		}
	}
}
