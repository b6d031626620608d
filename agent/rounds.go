package agent

import (
	"context"
	"sync"
	"time"
)

// door is where others ask a loop for a round of its work. Those who ask while a round is
// under way get the next one, all the same.
type door struct {
	name string        // of what the loop follows
	wake chan struct{} // holds a token while somebody has asked

	mu      sync.Mutex
	pending round
	since   time.Time // when the round under way was begun; zero: there is none
}

// round is one time that a loop does its work.
type round struct {
	cause   string
	again   bool         // what was tried in vain is tried again
	answers []chan error // to those who wait
}

func newDoor(name string) *door { return &door{name: name, wake: make(chan struct{}, 1)} }

// knock asks for a round, and waits for nothing.
func (d *door) knock(cause string, again bool) { d.leave(cause, again, nil) }

// ask waits for the end of a round that begins now or later, in which everything is tried
// again, and returns what came of it.
func (d *door) ask(ctx context.Context, cause string) error {
	answer := make(chan error, 1)
	d.leave(cause, true, answer)
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *door) leave(cause string, again bool, answer chan error) {
	d.mu.Lock()
	p := &d.pending
	if p.cause == "" || answer != nil { // who waits is the better reason
		p.cause = cause
	}
	p.again = p.again || again
	if answer != nil {
		p.answers = append(p.answers, answer)
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// take returns what was asked for since the last time.
func (d *door) take() round {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.pending
	d.pending = round{}
	return r
}

// setUnderWay notes when the round under way was begun, or, with zero, that it has ended.
func (d *door) setUnderWay(since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since = since
}

// underWay returns when the round under way was begun; zero where there is none.
func (d *door) underWay() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since
}

// done tells those who wait what came of a round.
func (r *round) done(err error) {
	for _, answer := range r.answers {
		answer <- err
	}
}

// maxUnrest bounds how long files may go on changing before the change is applied.
const maxUnrest = 2 * time.Second

// changing is the stamp of files that have changed.
type changing struct {
	seen  string
	since time.Time // when a change was first seen that is not due yet; zero: there is none
}

// due reports whether a change is to be applied now, where stamp is that of the files now,
// and known that of those which were read last: when the files have rested since the last
// look, or have gone on changing for maxUnrest.
func (c *changing) due(now time.Time, stamp, known string) bool {
	rested := stamp == c.seen
	c.seen = stamp
	if stamp == known {
		c.since = time.Time{}
		return false
	}
	if c.since.IsZero() {
		c.since = now
	}
	if !rested && now.Sub(c.since) < maxUnrest {
		return false
	}
	c.since = time.Time{}
	return true
}

// The causes of what nobody asked for.
const (
	changedFiles   = "changed files"
	otherManifests = "other manifests"
	retriedSecrets = "secrets that could not be used"
)

// The loops of an agent. None of them waits for another: what is slow or hangs, a
// registry, a compilation, the validator of a plugin, holds up its own business and no
// other. They tell each other by knocking.

// followManifests applies the manifests, and does so again when they change, or secrets do
// that they refer to, or plugins do that they were refused for, until ctx ends.
func (a *Agent) followManifests(ctx context.Context) {
	defer a.retry.Stop()
	_ = a.apply(ctx, "start") // logged
	var files changing
	changed := func(now time.Time) bool {
		return files.due(now, a.source.Stamp()+a.secrets.now(), a.stamp+a.secrets.known())
	}
	a.rounds(ctx, a.manifests, changed, func(r *round) error { return a.readManifests(ctx, r) })
}

// followPlugins brings the plugins to what prober.yaml and folders have, until ctx ends.
func (a *Agent) followPlugins(ctx context.Context) {
	var files changing
	changed := func(now time.Time) bool { return files.due(now, a.handlers.stamp(), a.pluginStamp) }
	a.rounds(ctx, a.plugins, changed, func(r *round) error { return a.readPlugins(ctx, r) })
}

// rounds lets work be done when files have changed, and when somebody asks for it.
func (a *Agent) rounds(ctx context.Context, at *door, changed func(now time.Time) bool, work func(*round) error) {
	ticker := time.NewTicker(a.cfg.PollInterval)
	defer ticker.Stop()
	for {
		r := round{cause: changedFiles}
		select {
		case <-ctx.Done():
			return
		case <-at.wake:
			if r = at.take(); r.cause == "" {
				continue // the round before has taken it
			}
		case now := <-ticker.C:
			if !changed(now) {
				continue
			}
		}
		r.done(a.timed(at, &r, work))
	}
}

// timed does the work of a round, and logs once when it takes long.
func (a *Agent) timed(at *door, r *round, work func(*round) error) error {
	start := time.Now()
	at.setUnderWay(start)
	defer at.setUnderWay(time.Time{})
	cause := r.cause
	long := time.AfterFunc(a.cfg.longReload, func() {
		a.log.Warn("reload takes long", "of", at.name, "cause", cause, "since", start.Format(time.RFC3339))
	})
	defer long.Stop()
	return work(r)
}

// followRegistries asks the registries of plugins, now and then and when it is told to,
// until ctx ends. What has come of it is for the next look at the plugins.
func (a *Agent) followRegistries(ctx context.Context) {
	next := time.NewTimer(a.handlers.untilNextPull())
	defer next.Stop()
	for {
		var r round
		select {
		case <-ctx.Done():
			return
		case <-a.registries.wake:
			r = a.registries.take()
		case <-next.C:
			r.again = true
		}
		a.handlers.pull(ctx, len(r.answers) > 0, r.again, a.registryAnswered)
		r.done(nil) // what went wrong is told of the plugins
		next.Reset(a.handlers.untilNextPull())
	}
}

// keepHouse promotes the shadows that are due, and unloads plugins that nobody uses any
// more, until ctx ends.
func (a *Agent) keepHouse(ctx context.Context) {
	ticker := time.NewTicker(a.cfg.PollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if a.handlers.promoteDue(ctx) {
				a.promoted()
			}
			if a.handlers.tidy(now) {
				a.plugins.knock("unused plugins", false)
			}
		}
	}
}

// followSignals reloads when it is told to, until ctx ends.
func (a *Agent) followSignals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.cfg.Reload:
			_ = a.readAgain(ctx, "signal") // logged
		}
	}
}
