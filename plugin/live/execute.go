package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/trust"
	"github.com/daeace23/prober/probe"
)

var (
	// ErrWithdrawn is the error of the probes of a plugin that was withdrawn.
	ErrWithdrawn = errors.New("it was withdrawn: its file or its source was removed")

	errUnloaded = errors.New("it was not used, and is not loaded")
)

// apply applies v to r, whose token the caller holds, and to its shadow.
func (m *Manager) apply(ctx context.Context, r *record, v *admit.Snapshot, retry bool) (changed bool, err error) {
	if v.Number < r.seen { // a newer snapshot has been applied
		return false, m.failure(r)
	}
	r.seen = v.Number
	changed, err = m.applyPlugin(ctx, r, v, retry)
	switch {
	case ctx.Err() != nil:
		return changed, context.Cause(ctx)
	case m.record(r.name) != r: // it was dropped
		return changed, errors.Join(err, v.WithoutPlugin(r.name))
	}
	return changed, errors.Join(err, m.applyShadow(ctx, r, v, retry))
}

// applyPlugin decides on an action for r, and carries it out. It does not return errors that v
// has.
func (m *Manager) applyPlugin(ctx context.Context, r *record, v *admit.Snapshot, retry bool) (changed bool, err error) {
	e, f := v.Plugin(r.name), m.found(r, v)
	m.mu.Lock()
	owner := ""
	if e.Loadable() || e.State == admit.Listed {
		owner, f.fileOfOther = m.isTakenLocked(r, e.Plugin.Path)
	}
	u := m.usageLocked(r)
	u.retry = retry
	act := decide(r.knownLocked(), f, u)
	if act == forget {
		m.dropLocked(r)
	}
	m.mu.Unlock()
	switch act {
	case keep:
		if e.Loadable() {
			return false, r.err
		}
	case offer:
		return m.offer(r, e.Plugin)
	case confirm:
		m.confirm(r, e.Plugin, f.version)
	case load:
		err = m.load(ctx, r, e.Plugin, f.version)
		return err == nil, err
	case withdraw:
		m.withdraw(r)
	case forget:
		m.forget(r)
	case await:
		return false, m.awaitVersion(r, cmp.Or(e.Reason, ErrWithdrawn))
	case reportError:
		m.fail(r, r.tried, cmp.Or(e.Rival, v.About(r.name, r.place)), r.state)
	case reportLost:
		err = fmt.Errorf("plugin %q: %s does not contain a plugin of that name; the old version keeps running", r.name, r.place)
		m.fail(r, r.tried, err, r.state)
	case reportFileOfOther:
		err = fmt.Errorf("plugin %q: %s is the file of the plugin %q, which keeps running; another plugin needs another file", r.name, e.Plugin.Path, owner)
		state := Failed
		if u.none() {
			state = Unused // the next probe tries again
		}
		m.fail(r, "", err, state)
	}
	return false, err
}

// fail records that a version could not be loaded. If no version runs, it sets the plugin's state.
func (m *Manager) fail(r *record, version string, err error, state State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.settleLocked(version, err)
	if r.state == Unused || r.state == Failed {
		r.state = state
	}
}

// failure returns the error for which no version of r runs. It returns nil if one runs, or if r was
// withdrawn or awaits its registry.
func (m *Manager) failure(r *record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.state == Running || r.state == Withdrawn || r.state == Awaited {
		return nil
	}
	return r.err
}

// offer records a plugin, which its first probe will load, and reports whether it is new.
func (m *Manager) offer(r *record, p admit.Plugin) (isNew bool, err error) {
	isNew = !r.registered
	m.mu.Lock()
	r.plugin, r.state, r.err = p.WithoutCode(), Unused, nil
	m.mu.Unlock()
	return isNew, m.register(r)
}

// awaitVersion binds probes to r before it has a version. They return an error that wraps why.
func (m *Manager) awaitVersion(r *record, why error) error {
	m.mu.Lock()
	r.state = Awaited
	r.settleLocked("", why)
	m.mu.Unlock()
	r.handler.Await(why)
	return m.register(r)
}

// setAwaitError makes the probes of r that await a version return an error that wraps why.
func (m *Manager) setAwaitError(r *record, why error) {
	m.mu.Lock()
	awaited := r.state == Awaited
	m.mu.Unlock()
	if awaited {
		r.handler.Await(why)
	}
}

// register adds r to the registry, once.
func (m *Manager) register(r *record) error {
	if r.registered {
		return nil
	}
	r.registered = true
	return m.cfg.Registry.Register(r.name, r.plugin.Path, r.handler)
}

// confirm records that the version in the plugin's file has not changed. This is the running version,
// or the one that a promoted shadow has replaced. Its path and its signatures may have changed.
func (m *Manager) confirm(r *record, p admit.Plugin, version string) {
	m.mu.Lock()
	same := true
	if r.version == version {
		same = r.plugin.Verdict.String() == p.Verdict.String()
		r.plugin.Path, r.plugin.Verdict = p.Path, p.Verdict
		if g, _, _ := r.currentLocked(); g != nil {
			g.plugin.Path, g.plugin.Verdict = p.Path, p.Verdict
		}
	}
	r.lastFound, r.place = version, p.Path
	r.settleLocked(version, nil)
	m.mu.Unlock()
	if !same {
		m.cfg.Log.Info("plugin is "+p.Verdict.String(), "handler", r.name, "path", p.Path, "digest", p.Digest)
	}
}

// load loads p and replaces the running version.
func (m *Manager) load(ctx context.Context, r *record, p admit.Plugin, version string) error {
	start := time.Now()
	if err := m.loadGeneration(ctx, r, p, r.handler.Replace); err != nil {
		if ctx.Err() == nil {
			m.fail(r, version, err, Failed)
			m.setAwaitError(r, err)
		}
		return err
	}
	m.mu.Lock()
	r.lastFound, r.place = version, p.Path
	r.settleLocked(version, nil)
	m.mu.Unlock()
	return m.installed(r, p, version, time.Since(start))
}

// loadGeneration loads p as a new generation of r, and passes it to install: Replace or Shadow of
// r's handler.
func (m *Manager) loadGeneration(ctx context.Context, r *record, p admit.Plugin, install func(context.Context, probe.Handler) error) error {
	p, err := p.WithCode()
	if err != nil {
		return err
	}
	loaded, err := m.cfg.Load(ctx, p)
	if err != nil {
		return fmt.Errorf("%w (%s)", err, p.Path)
	}
	h := quarantine.New(interruptible{loaded.Handler, m}, quarantine.Config{})
	m.mu.Lock()
	r.generations[h] = &generation{p.WithoutCode(), loaded.Stats}
	m.mu.Unlock()
	if err := install(ctx, h); err != nil {
		m.closed(r, h, h.Close())
		return fmt.Errorf("plugin %q: %w (%s)", r.name, err, p.Path)
	}
	return nil
}

// installed records that p runs now.
func (m *Manager) installed(r *record, p admit.Plugin, version string, took time.Duration) error {
	m.mu.Lock()
	r.plugin, r.version, r.state = p.WithoutCode(), version, Running
	delete(m.silent, r.name)
	m.mu.Unlock()
	m.warn(p)
	attrs := []any{"handler", r.name, "version", p.Manifest.Version, "path", p.Path, "digest", p.Digest}
	if signer := p.Verdict.Signer(); signer != "" {
		attrs = append(attrs, "signer", signer)
	}
	_, generation := r.handler.Current()
	m.cfg.Log.Info("plugin loaded", append(attrs, "generation", generation, "probes", r.handler.Live(), "took", took.Round(time.Microsecond))...)
	return m.register(r)
}

// warn logs that p is unsigned, or that its embedded manifest has no effect.
func (m *Manager) warn(p admit.Plugin) {
	attrs := []any{"handler", p.Manifest.Name, "path", p.Path, "digest", p.Digest}
	if p.Inside != "" {
		m.cfg.Log.Warn("plugin has another manifest inside than the plugin.yaml beside it, which takes precedence", attrs...)
	}
	switch p.Verdict.State {
	case admit.Dev:
		m.cfg.Log.Warn("plugin is under development: no pin, no signature and no lock holds for it", attrs...)
	case trust.Unsigned:
		m.cfg.Log.Warn("plugin is "+p.Verdict.String(), attrs...)
	}
}

// withdraw stops the running version. Its probes return errors, and so keep their decided results.
func (m *Manager) withdraw(r *record) {
	m.mu.Lock() // before a probe can end in the error
	r.clearLocked(Withdrawn)
	path := r.plugin.Path
	m.mu.Unlock()
	r.handler.Withdraw(ErrWithdrawn)
	m.cfg.Log.Warn("plugin withdrawn; its probes end in errors until there is another", "handler", r.name,
		"path", path, "probes", r.handler.Live())
}

// dropLocked drops the record of a plugin that no probe uses.
func (m *Manager) dropLocked(r *record) {
	delete(m.records, r.name)
	m.cfg.Registry.Remove(r.name)
}

// forget stops the running version of a plugin whose record was dropped.
func (m *Manager) forget(r *record) {
	if r.registered {
		m.cfg.Log.Info("plugin removed", "handler", r.name, "path", r.plugin.Path)
	}
	m.closing.Go(func() { _ = r.handler.Close() }) // closed handles the errors
}

// decideUnusedLocked is [decideUnused] for r.
func (m *Manager) decideUnusedLocked(r *record, now time.Time) action {
	if m.records[r.name] != r {
		return keep
	}
	u := m.usageLocked(r)
	switch {
	case !u.none():
		r.idleSince = time.Time{}
	case r.idleSince.IsZero():
		r.idleSince = now
	}
	u.idle = u.none() && now.Sub(r.idleSince) >= m.cfg.IdleAfter
	return decideUnused(r.knownLocked(), u)
}

// unloadUnused unloads or forgets r, whose token the caller holds, if nothing uses it. It reports
// whether it had an error.
func (m *Manager) unloadUnused(r *record, now time.Time) (failed bool) {
	m.mu.Lock()
	act, ran := m.decideUnusedLocked(r, now), r.state == Running
	switch act {
	case forget:
		m.dropLocked(r)
	case unload:
		failed = r.err != nil || r.shadow != nil && r.shadow.err != nil
		r.clearLocked(Unused)
	}
	m.mu.Unlock()
	switch {
	case act == forget:
		m.forget(r)
	case act == unload && ran:
		r.handler.Withdraw(errUnloaded)
		_, generation := r.handler.Current()
		m.cfg.Log.Info("plugin unloaded: no probe has used it for a while", "handler", r.name, "generation", generation)
	}
	return failed
}
