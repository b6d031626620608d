package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/internal/filestamp"
)

// The causes of reloads that the agent requests itself.
const (
	changedFiles   = "changed files"
	otherManifests = "other manifests"
	retriedSecrets = "secrets that could not be used"
)

// The loops of an agent. A slow or hanging registry, compilation or plugin delays only one loop, since loops
// request work from each other with a [trigger]. Only followSignals waits for the work that it requests.

// followPods reloads the pods on request, and when the files of secrets have changed, until ctx
// ends.
func (a *Agent) followPods(ctx context.Context) {
	var files filestamp.Settling
	changed := func(now time.Time) bool {
		known, stamp := a.secretFiles.Stamps()
		return files.Due(now, stamp, known)
	}
	a.follow(ctx, a.podsTrigger, changed, a.reloadPods)
}

// followPlugins reloads the plugins on request, and when their files have changed, until ctx ends.
// Each step calls the next: reloadPlugins, plugins.Set.Reload, live.Manager.Apply (which loads new
// versions), replace.Handler.Replace (which moves probes to them).
func (a *Agent) followPlugins(ctx context.Context) {
	var files filestamp.Settling
	changed := func(now time.Time) bool { return files.Due(now, a.handlers.Stamp(), a.pluginStamp) }
	a.follow(ctx, a.pluginsTrigger, changed, a.reloadPlugins)
}

// follow calls work on request, and when files have changed, until ctx ends.
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
				continue // an earlier take has the request
			}
		case now := <-ticker.C:
			if !changed(now) {
				continue
			}
		}
		r.done(a.timed(ctx, t, &r, work))
	}
}

// timed calls work, and logs once if it takes longer than longReload.
func (a *Agent) timed(ctx context.Context, t *trigger, r *request, work func(context.Context, *request) error) error {
	start := time.Now()
	t.started.Store(&start)
	defer t.started.Store(nil)
	cause := r.cause
	long := time.AfterFunc(a.cfg.longReload, func() {
		a.log.Warn("reload takes long", "of", t.name, "cause", cause, "since", start.Format(time.RFC3339))
	})
	defer long.Stop()
	return work(ctx, r)
}

// followRegistries queries the registries of plugins periodically and on request, until ctx ends. The next
// reload of the plugins uses the responses.
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
		r.done(nil) // the reload of the plugins reports errors
		next.Reset(a.handlers.UntilNextPull())
	}
}

// maintainPlugins promotes shadows that are due, and unloads plugins that no probe uses, until ctx
// ends.
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
			a.notify(Reloading)
			_ = a.reloadAll(ctx, "signal") // logged
			if a.running.Load() {
				a.notify(Ready)
			}
		}
	}
}

// Step is a stage in the life of an agent.
type Step int

// The steps of an agent.
const (
	Ready     Step = iota // pods were applied: at the start, and after each Reloading
	Reloading             // a signal has requested a reload
	Stopping              // the pods are about to be stopped
)

// notify calls [Config].Notify, if it is set.
func (a *Agent) notify(s Step) {
	if a.cfg.Notify != nil {
		a.cfg.Notify(s)
	}
}

// trigger requests work from a loop. It coalesces requests that arrive before the loop takes them. A request
// during the work starts another round.
type trigger struct {
	name    string                    // what the loop reloads
	wake    chan struct{}             // holds a token while there is a request
	started atomic.Pointer[time.Time] // begin of the work in progress; nil if there is none

	mu      sync.Mutex
	pending request
}

// request is a request for work.
type request struct {
	cause   string       // for the log; reloads compare it with the constants above
	retry   bool         // also retry failed parts that have not changed
	waiters []chan error // receive the result
}

func newTrigger(name string) *trigger { return &trigger{name: name, wake: make(chan struct{}, 1)} }

// request requests work, and returns immediately.
func (t *trigger) request(cause string, retry bool) { t.add(cause, retry, nil) }

// requestAndWait requests work with retry, and returns its result, or the cause of ctx if ctx ends first.
func (t *trigger) requestAndWait(ctx context.Context, cause string) error {
	waiter := make(chan error, 1)
	t.add(cause, true, waiter)
	select {
	case err := <-waiter:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// add merges a request into the pending one. The first cause stays, unless a waiting caller gives its own.
func (t *trigger) add(cause string, retry bool, waiter chan error) {
	t.mu.Lock()
	p := &t.pending
	if p.cause == "" || waiter != nil {
		p.cause = cause
	}
	p.retry = p.retry || retry
	if waiter != nil {
		p.waiters = append(p.waiters, waiter)
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// take returns the pending request; its cause is "" if there is none.
func (t *trigger) take() request {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.pending
	t.pending = request{}
	return r
}

// elapsed returns how long the work in progress has taken; 0 if there is none.
func (t *trigger) elapsed() time.Duration {
	if started := t.started.Load(); started != nil {
		return time.Since(*started)
	}
	return 0
}

// done sends the result of the work to the waiters.
func (r *request) done(err error) {
	for _, waiter := range r.waiters {
		waiter <- err
	}
}
