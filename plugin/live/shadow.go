package live

import (
	"context"
	"errors"
	"fmt"

	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/plugin/admit"
)

// shadowRecord is a running or pending shadow. The fields are guarded as the record's.
type shadowRecord struct {
	plugin  admit.Plugin // without code
	version string       // the running version; "" for none
	tried   string       // version of the last attempt to load
	err     error        // error of that attempt
	after   admit.PromoteAfter
	from    shadow.Counts // at the start of the comparison
	against string        // version of the plugin in the comparison
	refused bool          // whether a promotion failed
}

// applyShadow applies v to the shadow of r, whose token the caller holds.
func (m *Manager) applyShadow(ctx context.Context, r *record, v *admit.Snapshot, retry bool) error {
	e := v.Shadow(r.name)
	f := found{state: e.State}
	if e.Loadable() {
		f.version = m.versionOf(e.Plugin)
	}
	m.mu.Lock()
	k := knownShadow{pluginState: r.state, pluginRuns: r.version}
	sh := r.shadow
	if sh != nil {
		k.shadow = known{runs: sh.version, tried: sh.tried, bad: sh.err != nil}
		if sh.version != "" && r.handler.HasShadow() {
			k.shadow.state = Running
		}
	}
	act := decideShadow(k, f, retry)
	if act == load && sh == nil {
		sh = new(shadowRecord)
		r.shadow = sh
	}
	if sh != nil && f.version != "" {
		sh.after = e.PromoteAfter
	}
	if act == confirm {
		sh.tried, sh.err = f.version, nil
	}
	m.mu.Unlock()
	switch {
	case act == unload:
		m.removeShadow(r)
	case act == reportLost:
		return v.WithoutPlugin(r.name)
	case act == load:
		return m.loadShadow(ctx, r, sh, e.Plugin, f.version)
	case act == keep && sh != nil && e.Loadable():
		return sh.err
	}
	return nil
}

// loadShadow loads p, and runs it as the shadow of r.
func (m *Manager) loadShadow(ctx context.Context, r *record, sh *shadowRecord, p admit.Plugin, version string) error {
	err := m.loadGeneration(ctx, r, p, r.handler.Shadow)
	if err != nil && ctx.Err() != nil {
		return err
	}
	m.mu.Lock()
	sh.tried, sh.err = version, err
	if err == nil {
		sh.plugin, sh.version, sh.from, sh.against = p.WithoutCode(), version, r.handler.Shadowing(), r.version
		sh.refused = false // it applied to the previous version
	}
	m.mu.Unlock()
	if err == nil {
		m.cfg.Log.Info("plugin runs beside the one that decides", "handler", r.name, "version", p.Manifest.Version, "path", p.Path, "digest", p.Digest)
	}
	return err
}

func (m *Manager) removeShadow(r *record) {
	m.mu.Lock()
	had := r.shadow != nil
	r.shadow = nil
	m.mu.Unlock()
	if had {
		r.handler.Unshadow()
	}
}

// PromoteDue promotes the shadows that have agreed for long enough, and reports whether it promoted
// one. It skips a plugin that another goroutine is changing.
func (m *Manager) PromoteDue(ctx context.Context) (promoted bool) {
	for _, r := range m.allRecords() {
		if r.tryLock() {
			promoted = m.promoteDue(ctx, r) || promoted
			r.unlock()
		}
	}
	return promoted
}

// promoteDue promotes the shadow of r, whose token the caller holds, if it is due. After a failure it
// does not try again until there is another version.
func (m *Manager) promoteDue(ctx context.Context, r *record) (promoted bool) {
	sh := m.dueShadow(r)
	if sh == nil {
		return false
	}
	err := m.promote(ctx, r)
	if err != nil && ctx.Err() == nil {
		m.mu.Lock()
		sh.refused = true
		m.mu.Unlock()
		m.cfg.Log.Error("plugin was not promoted", "handler", r.name, "error", err.Error())
	}
	return err == nil
}

// dueShadow returns the shadow of r if its promotion is due, else nil.
func (m *Manager) dueShadow(r *record) *shadowRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	sh, now := r.shadow, r.handler.Shadowing()
	if sh == nil || sh.version == "" || sh.refused {
		return nil
	}
	if sh.against != r.version { // the plugin has changed: compare from now on
		sh.against, sh.from = r.version, now
	}
	if !isDue(sh.after, now.Less(sh.from)) {
		return nil
	}
	return sh
}

// ErrNoPlugin is the error for a name that no plugin has.
var ErrNoPlugin = errors.New("there is no plugin of that name")

// Promote replaces the plugin called name by its shadow. It waits until no other goroutine changes the
// plugin, or until ctx ends.
func (m *Manager) Promote(ctx context.Context, name string) (Status, error) {
	r := m.record(name)
	if r == nil {
		return Status{}, ErrNoPlugin
	}
	if err := r.lock(ctx); err != nil {
		return Status{}, err
	}
	defer r.unlock()
	if m.record(name) != r {
		return Status{}, ErrNoPlugin
	}
	err := m.promote(m.ctx, r) // not ctx, which must not stop it halfway
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.statusLocked(), err
}

// promote replaces r, whose token the caller holds, by its shadow.
func (m *Manager) promote(ctx context.Context, r *record) error {
	m.mu.Lock()
	sh := r.shadow
	m.mu.Unlock()
	if sh == nil || sh.version == "" {
		return fmt.Errorf("plugin %q: %w", r.name, replace.ErrNoShadow)
	}
	if err := r.handler.Promote(ctx); err != nil {
		return fmt.Errorf("plugin %q: %w", r.name, err)
	}
	m.mu.Lock()
	r.shadow = nil
	m.mu.Unlock()
	return m.installed(r, sh.plugin, sh.version, 0)
}
