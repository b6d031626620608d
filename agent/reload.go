package agent

import (
	"context"
	"errors"
	"time"
)

// reloadState is how it went with what was last read. What has an error is as it was
// before.
type reloadState struct {
	manifestsAt, pluginsAt time.Time
	manifests, plugins     error
}

// reloading returns how long the reload that is under way has taken, the longer one where
// there are two; 0 where there is none.
func (a *Agent) reloading() (took time.Duration) {
	for _, at := range []*door{a.manifests, a.plugins} {
		if since := at.underWay(); !since.IsZero() {
			took = max(took, time.Since(since))
		}
	}
	return took
}

// noteManifests notes how it went with the manifests.
func (a *Agent) noteManifests(err error) {
	a.note(func(s *reloadState, now time.Time) { s.manifests, s.manifestsAt = err, now })
}

// notePlugins notes how it went with the plugins.
func (a *Agent) notePlugins(err error) {
	a.note(func(s *reloadState, now time.Time) { s.plugins, s.pluginsAt = err, now })
}

func (a *Agent) note(change func(s *reloadState, now time.Time)) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.reload, now)
	a.metrics.Reloaded(a.reload.manifests == nil && a.reload.plugins == nil, now)
}

func (a *Agent) lastReload() reloadState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reload
}

// Reload has registries asked, and manifests, prober.yaml and plugins read again now, and
// returns when they are applied or found to be bad; at the latest at the end of ctx, when
// that goes on without it. Its error tells of all that is wrong.
func (a *Agent) Reload(ctx context.Context) error { return a.readAgain(ctx, "request") }

// readAgain has everything read again. The plugins come first: the manifests may name a
// new one. A plugin that was refused is tried again with new manifests, since it may be
// one of the old that it did not fit.
func (a *Agent) readAgain(ctx context.Context, cause string) error {
	_ = a.registries.ask(ctx, cause) // what they said is told of the plugins; where who asked has gone, all goes on
	plugins := a.plugins.ask(ctx, cause)
	manifests := a.manifests.ask(ctx, cause)
	if manifests == nil && plugins != nil && ctx.Err() == nil {
		plugins = a.plugins.ask(ctx, otherManifests)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(manifests, plugins)
}

// readPlugins brings the plugins to what prober.yaml and folders have. Manifests that were
// refused are read again where there are other plugins now, and all where other secrets are
// allowed.
func (a *Agent) readPlugins(ctx context.Context, r *round) error {
	applied := a.applies.Load()
	known := a.pluginStamp
	a.pluginStamp = a.handlers.stamp()
	other := a.pluginStamp != known || r.cause == changedFiles
	changed, err := a.handlers.reload(ctx, r.again)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if changed {
		a.replacements.Add(1)
	}
	last := a.lastReload()
	a.notePlugins(err)
	switch {
	case err != nil && (textOf(err) != textOf(last.plugins) || r.isNews(known, a.pluginStamp)):
		a.log.Error("plugins cannot all be used; what was there before goes on", "cause", r.cause, "error", err.Error())
	case err == nil && (changed || last.plugins != nil):
		a.log.Info("plugins reloaded", "cause", r.cause)
	}
	if a.handlers.allowsOthers() {
		a.manifests.knock("other secrets.allow", false)
	} else if changed && last.manifests != nil {
		a.manifests.knock("other plugins", false)
	}
	if err != nil && a.applies.Load() != applied { // they were not told of each other
		a.plugins.knock(otherManifests, true)
	}
	switch {
	case other: // whatever this round was asked for: no other will see it
		a.registries.knock(changedFiles, false)
	case a.handlers.awaitsRegistry():
		a.registries.knock("a plugin that was not pulled", false)
	}
	return err
}

// isNews reports whether a round that found what was wrong before is to say so: somebody
// asked, or files are others than those with the stamp known.
func (r *round) isNews(known, stamp string) bool {
	switch r.cause {
	case otherManifests:
		return false
	case changedFiles:
		return !onlyMoreFiles(known, stamp)
	default:
		return r.again
	}
}

// readManifests reads the manifests and applies them if they are good. Plugins that were
// refused are tried again where there are other manifests now.
func (a *Agent) readManifests(ctx context.Context, r *round) error {
	replaced := a.replacements.Load()
	pods, err := a.newest(ctx, len(r.answers) > 0)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		a.handlers.refuses()
		secrets := a.refreshSecrets(ctx) // what is wrong elsewhere keeps no secret back
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if len(r.answers) == 0 { // else all pods were checked, with their secrets
			err = errors.Join(err, secrets)
		}
		last := a.lastReload()
		a.noteManifests(err)
		if r.cause != retriedSecrets || textOf(err) != textOf(last.manifests) {
			a.log.Error("manifests cannot be used; the last good state is kept", "cause", r.cause, "error", err.Error())
		}
		if a.replacements.Load() != replaced { // they were not told of each other
			a.manifests.knock("other plugins", false)
		}
		return err
	}
	a.wanted = pods
	if err = a.apply(ctx, r.cause); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.applies.Add(1)
	if err != nil && a.replacements.Load() != replaced { // a plugin came too late, or went too early
		a.manifests.knock("other plugins", false)
	}
	if err == nil && a.lastReload().plugins != nil {
		a.plugins.knock(otherManifests, true)
	}
	return err
}

// promoted notes that there is another plugin now, which may take what manifests were
// refused for.
func (a *Agent) promoted() {
	a.replacements.Add(1)
	if a.lastReload().manifests != nil {
		a.manifests.knock("other plugins", false)
	}
}

// unprobed hears that a pod goes without a probe that could not be had. With the manifests it
// is asked for again, now, and when there are other plugins.
func (a *Agent) unprobed() { a.manifests.knock("a probe that could not be had", false) }

// demanded hears how it went with a plugin that a probe asked for. What is known of all of
// them follows.
func (a *Agent) demanded(err error) {
	if err != nil || a.lastReload().plugins != nil {
		a.plugins.knock("probe", false)
	}
}

// registryAnswered hears that a registry has a new answer about a plugin. It is known to
// the API and the metrics at once.
func (a *Agent) registryAnswered() {
	_, _ = a.handlers.scan() // the round that follows reports the error
	a.plugins.knock("registry", false)
}

// textOf is the text of an error, "" for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
