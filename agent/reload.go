package agent

import (
	"context"
	"errors"
	"time"

	"github.com/daeace23/prober/agent/plugins"
)

// progress is how it went with the last attempts to reload the pods and the plugins. What
// failed is as it was before.
type progress struct{ pods, plugins attempt }

// attempt is how it went with one of the two.
type attempt struct {
	at      time.Time
	err     error
	version int // changes so far
	against int // the version of the other one when the attempt began
}

// begin notes that an attempt begins, where other is the other one.
func (a *attempt) begin(other *attempt) { a.against = other.version }

// end notes how the attempt went.
func (a *attempt) end(now time.Time, changed bool, err error) {
	a.at, a.err = now, err
	if changed {
		a.version++
	}
}

// retries returns what is to be tried again: what has failed, where the other one has changed
// since that attempt began. A pod may need a plugin that came too late, and a plugin may not
// fit a pod that has gone. It returns each retry once.
func (p *progress) retries() (pods, plugins bool) {
	return p.pods.retry(&p.plugins), p.plugins.retry(&p.pods)
}

func (a *attempt) retry(other *attempt) bool {
	if a.err == nil || a.against == other.version {
		return false
	}
	a.against = other.version
	return true
}

// update changes what is known of the last attempts, and asks for retries. It returns what
// was known before.
func (a *Agent) update(change func(p *progress)) (before progress) {
	a.mu.Lock()
	before = a.last
	change(&a.last)
	pods, plugins := a.last.retries()
	a.mu.Unlock()
	if pods {
		a.podsTrigger.request("other plugins", false)
	}
	if plugins {
		a.pluginsTrigger.request(otherManifests, true)
	}
	return before
}

// ended notes how an attempt went. It returns what was known before.
func (a *Agent) ended(which func(p *progress) *attempt, changed bool, err error) (before progress) {
	now := time.Now()
	return a.update(func(p *progress) {
		which(p).end(now, changed, err)
		a.metrics.Reloaded(p.pods.err == nil && p.plugins.err == nil, now)
	})
}

func (p *progress) ofPods() *attempt    { return &p.pods }
func (p *progress) ofPlugins() *attempt { return &p.plugins }

// lastReload returns how it went with the last attempts.
func (a *Agent) lastReload() progress {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// reloading returns how long the reload that is under way has taken, the longer one where
// there are two; 0 where there is none.
func (a *Agent) reloading() (took time.Duration) {
	for _, t := range []*trigger{a.podsTrigger, a.pluginsTrigger} {
		if since := t.underWay(); !since.IsZero() {
			took = max(took, time.Since(since))
		}
	}
	return took
}

// Reload asks the registries, and reads manifests, prober.yaml and plugins again. It returns
// when they are applied or found to be bad; at the latest at the end of ctx, when
// that goes on without it. Its error tells of all that is wrong.
func (a *Agent) Reload(ctx context.Context) error { return a.reloadAll(ctx, "request") }

// reloadAll reloads everything. The plugins come first: the manifests may name a
// new one. A plugin that was refused is tried again with new manifests, since it may be
// one of the old that it did not fit.
func (a *Agent) reloadAll(ctx context.Context, cause string) error {
	_ = a.registriesTrigger.requestAndWait(ctx, cause) // what they said is reported by the plugins
	plugins := a.pluginsTrigger.requestAndWait(ctx, cause)
	manifests := a.podsTrigger.requestAndWait(ctx, cause)
	if manifests == nil && plugins != nil && ctx.Err() == nil {
		plugins = a.pluginsTrigger.requestAndWait(ctx, otherManifests)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(manifests, plugins)
}

// reloadPlugins brings the plugins to what prober.yaml and folders have.
func (a *Agent) reloadPlugins(ctx context.Context, r *request) error {
	a.update(func(p *progress) { p.plugins.begin(&p.pods) })
	known := a.pluginStamp
	a.pluginStamp = a.handlers.Stamp()
	filesChanged := a.pluginStamp != known || r.cause == changedFiles
	changed, err := a.handlers.Reload(ctx, r.retry)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if a.handlers.SecretPolicyChanged() {
		a.podsTrigger.request("other secrets.allow", false)
	}
	last := a.ended((*progress).ofPlugins, changed, err)
	switch {
	case err != nil && (textOf(err) != textOf(last.plugins.err) || r.isNews(known, a.pluginStamp)):
		a.log.Error("plugins cannot all be used; what was there before goes on", "cause", r.cause, "error", err.Error())
	case err == nil && (changed || last.plugins.err != nil):
		a.log.Info("plugins reloaded", "cause", r.cause)
	}
	switch {
	case filesChanged: // whatever the request was: no other will see the change
		a.registriesTrigger.request(changedFiles, false)
	case a.handlers.AwaitsRegistry():
		a.registriesTrigger.request("a plugin that was not pulled", false)
	}
	return err
}

// isNews reports whether an error that is the same as before is logged again: somebody
// asked, or files are others than those with the stamp known.
func (r *request) isNews(known, stamp string) bool {
	switch r.cause {
	case otherManifests:
		return false
	case changedFiles:
		return !plugins.OnlyMoreFiles(known, stamp)
	default:
		return r.retry
	}
}

// promoted notes that a shadow has taken the place of its plugin.
func (a *Agent) promoted() {
	a.update(func(p *progress) { p.plugins.version++ })
}

// demanded hears how it went with a plugin that a probe asked for, and has the plugins
// reloaded where that tells something new of them.
func (a *Agent) demanded(err error) {
	if err != nil || a.lastReload().plugins.err != nil {
		a.pluginsTrigger.request("probe", false)
	}
}

// registryAnswered hears that a registry has a new answer about a plugin. It is known to
// the API and the metrics at once.
func (a *Agent) registryAnswered() {
	_, _ = a.handlers.Scan() // the reload that follows reports the error
	a.pluginsTrigger.request("registry", false)
}

// textOf is the text of an error, "" for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
