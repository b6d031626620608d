package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/plugin/admit"
)

// progress has the last attempts to reload the pods and the plugins, and the error of the last one to
// reload the modules of /probe.
type progress struct {
	pods, plugins reloadAttempt
	modules       error
}

// reloadAttempt is the last attempt to reload the pods, or the plugins. The other side of the pods
// is the plugins, and that of the plugins is the pods.
type reloadAttempt struct {
	at           time.Time
	err          error
	changes      int // attempts so far that changed something
	otherChanges int // changes of the other side when the attempt began
}

// maxFailed bounds what readers of the health of the agent get of an error, in bytes: a pod's author may make
// many. The log has all.
const maxFailed = 4 << 10

// failed says when the attempt failed, and why.
func (a *reloadAttempt) failed() string {
	if part, ok := errors.AsType[partialError](a.err); ok {
		return fmt.Sprintf("applied in part at %s: %s", a.at.Format(time.RFC3339), clip.Text(joined.Line(part.error), maxFailed))
	}
	return fmt.Sprintf("failed at %s, the last good state is kept: %s", a.at.Format(time.RFC3339), clip.Text(joined.Line(a.err), maxFailed))
}

// ofConfig reports whether the attempt failed because prober.yaml cannot be used.
func (a *reloadAttempt) ofConfig() bool {
	_, ok := errors.AsType[*admit.ConfigError](a.err)
	return ok
}

// withoutConfig returns the attempt without the error of a prober.yaml that cannot be used.
func (a *reloadAttempt) withoutConfig() *reloadAttempt {
	of := *a
	if a.ofConfig() {
		of.err = nil
	}
	return &of
}

// begin records that an attempt begins.
func (a *reloadAttempt) begin(other *reloadAttempt) { a.otherChanges = other.changes }

// takeRetries reports whether to reload the pods, or the plugins, again. Each is retried if its last
// attempt failed and the other side has changed since that attempt began: a pod may need a plugin
// that came later, and a plugin may have been refused because of a pod that is gone. The next call
// reports true only after a further change.
func (p *progress) takeRetries() (pods, plugins bool) {
	return p.pods.takeRetry(&p.plugins), p.plugins.takeRetry(&p.pods)
}

func (a *reloadAttempt) takeRetry(other *reloadAttempt) bool {
	if a.err == nil || a.otherChanges == other.changes {
		return false
	}
	a.otherChanges = other.changes
	return true
}

// update changes the progress and requests retries. It returns the progress before.
func (a *Agent) update(change func(p *progress)) (before progress) {
	a.mu.Lock()
	before = a.last
	change(&a.last)
	pods, plugins := a.last.takeRetries()
	a.mu.Unlock()
	if pods {
		a.podsTrigger.request("other plugins", false)
	}
	if plugins {
		a.pluginsTrigger.request(otherManifests, true)
	}
	return before
}

// noteReload records the result of an attempt. It returns the progress before.
func (a *Agent) noteReload(which func(p *progress) *reloadAttempt, changed bool, err error) (before progress) {
	now := time.Now()
	return a.update(func(p *progress) {
		last := which(p)
		last.at, last.err = now, err
		if changed {
			last.changes++
		}
		a.metrics.Reloaded(p.pods.err == nil && p.plugins.err == nil && p.modules == nil, now)
	})
}

func (p *progress) ofPods() *reloadAttempt    { return &p.pods }
func (p *progress) ofPlugins() *reloadAttempt { return &p.plugins }

// lastReload returns the progress.
func (a *Agent) lastReload() progress {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// reloading returns how long the reload under way has taken, the longer one if there are two; 0 if
// there is none.
func (a *Agent) reloading() time.Duration {
	return max(a.podsTrigger.underWay(), a.pluginsTrigger.underWay())
}

// Reload queries the registries, and reads manifests, prober.yaml and plugins again. It returns
// when they are applied or refused, with all errors. If ctx ends before, Reload returns and the
// work goes on.
func (a *Agent) Reload(ctx context.Context) error { return a.reloadAll(ctx, "request") }

// reloadAll reloads everything. The modules of /probe come first, since plugins may use their
// credentials, and then the plugins: the manifests may name a new one. It tries
// a plugin that was refused again after the manifests, since an old one may be the reason.
func (a *Agent) reloadAll(ctx context.Context, cause string) error {
	modules := a.scrapes.Reload(a.within(ctx))
	a.update(func(p *progress) { p.modules = modules }) // the reload of the plugins counts it
	if modules != nil {
		a.log.Error("the modules of /probe cannot be used; the last good ones go on", "cause", cause, "error", modules.Error())
	}
	_ = a.registriesTrigger.requestAndWait(ctx, cause) // the reload of the plugins reports errors
	plugins := a.pluginsTrigger.requestAndWait(ctx, cause)
	manifests := a.podsTrigger.requestAndWait(ctx, cause)
	if manifests == nil && plugins != nil && ctx.Err() == nil {
		plugins = a.pluginsTrigger.requestAndWait(ctx, otherManifests)
	}
	if modules != nil && ctx.Err() == nil { // a plugin that is newer now may take them
		modules = a.scrapes.Reload(a.within(ctx))
		a.update(func(p *progress) { p.modules = modules })
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return verdict(a.guard.Web.Check(a.guard.Addr), modules, plugins, manifests)
}

// reloadPlugins applies the files of the plugins and the answers of registries.
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
	last := a.noteReload((*progress).ofPlugins, changed, err)
	switch {
	case err != nil && (textOf(err) != textOf(last.plugins.err) || r.isNews(known, a.pluginStamp)):
		text := "some plugins cannot be used; their last good versions go on"
		if _, ok := errors.AsType[*admit.ConfigError](err); ok {
			text = "prober.yaml cannot be used; its last good contents go on"
		}
		a.log.Error(text, "cause", r.cause, "error", err.Error())
	case err == nil && (changed || last.plugins.err != nil):
		a.log.Info("plugins reloaded", "cause", r.cause)
	}
	switch {
	case filesChanged: // also if the request has another cause: the change is not seen again
		a.registriesTrigger.request(changedFiles, false)
	case a.handlers.AwaitsRegistry():
		a.registriesTrigger.request("a plugin that was not pulled", false)
	}
	return err
}

// isNews reports whether to log an error that is equal to the last one: a caller waits, or files
// have changed since the stamp known.
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

// promoted records that a shadow has replaced its plugin.
func (a *Agent) promoted() {
	a.update(func(p *progress) { p.plugins.changes++ })
}

// demanded gets the result of loading a plugin for a probe. It requests a reload of the plugins if
// their error may change.
func (a *Agent) demanded(err error) {
	if err != nil || a.lastReload().plugins.err != nil {
		a.pluginsTrigger.request("probe", false)
	}
}

// registryAnswered is called for a new answer of a registry. It updates the API and the metrics at
// once.
func (a *Agent) registryAnswered() {
	_, _ = a.handlers.Scan() // the reload that follows reports the error
	a.pluginsTrigger.request("registry", false)
}

// textOf returns the text of an error, "" for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
