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

// progress has the last attempts to reload the pods and the plugins, and the error of the last reload of the
// modules of /probe.
type progress struct {
	pods, plugins reloadAttempt
	modules       error
}

// reloadAttempt is the last attempt to reload one side: the pods or the plugins.
type reloadAttempt struct {
	at           time.Time
	err          error
	changes      int // number of attempts that changed something
	otherChanges int // changes of the other side when the attempt began
}

// maxFailed limits the text of an error in the agent's health, in bytes, as authors of pods may cause many
// errors. The log has the full text.
const maxFailed = 4 << 10

// failed returns a message with the time and the error of the attempt.
func (a *reloadAttempt) failed() string {
	if part, ok := errors.AsType[partialError](a.err); ok {
		return fmt.Sprintf("applied in part at %s: %s", a.at.Format(time.RFC3339), clip.Text(joined.Line(part.error), maxFailed))
	}
	return fmt.Sprintf("failed at %s, the last good state is kept: %s", a.at.Format(time.RFC3339), clip.Text(joined.Line(a.err), maxFailed))
}

// ofConfig reports whether the attempt failed because of an invalid prober.yaml.
func (a *reloadAttempt) ofConfig() bool {
	_, ok := errors.AsType[*admit.ConfigError](a.err)
	return ok
}

// withoutConfig returns the attempt, without its error if that is an invalid prober.yaml.
func (a *reloadAttempt) withoutConfig() *reloadAttempt {
	attempt := *a
	if a.ofConfig() {
		attempt.err = nil
	}
	return &attempt
}

// begin records the start of an attempt.
func (a *reloadAttempt) begin(other *reloadAttempt) { a.otherChanges = other.changes }

// takeRetries reports whether to reload the pods or the plugins again. Each is retried if its last attempt
// failed and the other side has changed since that attempt began: a pod may need a plugin that came later,
// and a plugin may have been refused because of a pod that is gone. The next call reports true only after a
// further change.
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

// update changes the progress and requests the retries that are due. It returns the previous progress.
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

// noteReload records the result of an attempt. It returns the previous progress.
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

// lastReload returns a copy of the progress.
func (a *Agent) lastReload() progress {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// reloading returns how long the reload in progress has taken, or the longer one of two; 0 if there is none.
func (a *Agent) reloading() time.Duration {
	return max(a.podsTrigger.elapsed(), a.pluginsTrigger.elapsed())
}

// Reload queries the registries, and reads manifests, prober.yaml and plugins again. It returns when they are
// applied or refused; its error joins all problems. If ctx ends first, Reload returns and the reload
// continues.
func (a *Agent) Reload(ctx context.Context) error { return a.reloadAll(ctx, "request") }

// reloadAll reloads everything. The modules of /probe come first, as plugins may use their credentials. The
// plugins come next, as the manifests may need a new one. If plugins were refused, they are retried after the
// manifests, as an old manifest may be the reason.
func (a *Agent) reloadAll(ctx context.Context, cause string) error {
	modules := a.scrapes.Reload(a.within(ctx))
	a.update(func(p *progress) { p.modules = modules }) // the reload of the plugins updates the metrics
	if modules != nil {
		a.log.Error("the modules of /probe cannot be used; the last good ones stay in use", "cause", cause, "error", modules.Error())
	}
	_ = a.registriesTrigger.requestAndWait(ctx, cause) // the reload of the plugins reports errors
	plugins := a.pluginsTrigger.requestAndWait(ctx, cause)
	manifests := a.podsTrigger.requestAndWait(ctx, cause)
	if manifests == nil && plugins != nil && ctx.Err() == nil {
		plugins = a.pluginsTrigger.requestAndWait(ctx, otherManifests)
	}
	if modules != nil && ctx.Err() == nil { // a newer plugin may accept them
		modules = a.scrapes.Reload(a.within(ctx))
		a.update(func(p *progress) { p.modules = modules })
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return joinChecks(a.guard.Web.Check(a.guard.Addr), modules, plugins, manifests)
}

// reloadPlugins applies the files of the plugins and the responses of registries.
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
	if a.selectors.takeChanged() {
		a.podsTrigger.request("other selectors", false)
	}
	last := a.noteReload((*progress).ofPlugins, changed, err)
	switch {
	case err != nil && (errorText(err) != errorText(last.plugins.err) || r.isNews(known, a.pluginStamp)):
		text := "some plugins cannot be used; their last good versions stay in use"
		if _, ok := errors.AsType[*admit.ConfigError](err); ok {
			text = "prober.yaml cannot be used; its last good contents stay in use"
		}
		a.log.Error(text, "cause", r.cause, "error", err.Error())
	case err == nil && (changed || last.plugins.err != nil):
		a.log.Info("plugins reloaded", "cause", r.cause)
	}
	switch {
	case filesChanged: // also if the request has another cause, as the change is not detected again
		a.registriesTrigger.request(changedFiles, false)
	case a.handlers.AwaitsRegistry():
		a.registriesTrigger.request("plugin not pulled yet", false)
	}
	return err
}

// isNews reports whether to log an error that equals the last one: a caller waits, or files have changed
// since the stamp known.
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

// demanded is called with the result of loading a plugin for a probe. It requests a reload of the plugins if
// their error may change.
func (a *Agent) demanded(err error) {
	if err != nil || a.lastReload().plugins.err != nil {
		a.pluginsTrigger.request("probe", false)
	}
}

// registryAnswered is called for a new response of a registry. It updates the API and the metrics at once.
func (a *Agent) registryAnswered() {
	_, _ = a.handlers.Scan() // the following reload reports the error
	a.pluginsTrigger.request("registry", false)
}

// errorText returns the text of an error, "" for nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
