package live

import (
	"context"
	"errors"
	"fmt"

	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/plugin/admit"
)

// shadowRecord is a version of a plugin that runs, or is to run, beside the one that
// decides. It is guarded as the record that it belongs to.
type shadowRecord struct {
	plugin  admit.Plugin // without code
	version string       // that runs; "": none
	tried   string       // version that was tried last
	err     error        // why that does not run
	after   admit.PromoteAfter
	from    shadow.Counts // before it came, or before the plugin changed
	base    string        // version of the plugin since from
	refused bool          // it was due to be promoted, and could not be
}

// applyShadow brings the version beside r, whose token the caller holds, to what v has.
func (m *Manager) applyShadow(ctx context.Context, r *record, v *admit.Snapshot, retry bool) error {
	e := v.Shadow(r.name)
	f := found{state: e.State}
	if e.Loadable() {
		f.version = m.versionOf(e.Plugin)
	}
	m.mu.Lock()
	k := knownShadow{state: r.state, runs: r.version}
	sh := r.shadow
	if sh != nil {
		k.known = known{runs: sh.version, tried: sh.tried, bad: sh.err != nil}
		if sh.version != "" && r.handler.HasShadow() {
			k.known.state = Running
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
		m.unshadow(r)
	case act == reportLost:
		return v.WithoutPlugin(r.name)
	case act == load:
		return m.loadShadow(ctx, r, sh, e.Plugin, f.version)
	case act == keep && sh != nil && e.Loadable():
		return sh.err
	}
	return nil
}

// loadShadow loads p, and lets it run beside r.
func (m *Manager) loadShadow(ctx context.Context, r *record, sh *shadowRecord, p admit.Plugin, version string) error {
	err := m.bringUp(ctx, r, p, r.handler.Shadow)
	if err != nil && ctx.Err() != nil {
		return err
	}
	m.mu.Lock()
	sh.tried, sh.err = version, err
	if err == nil {
		sh.plugin, sh.version, sh.from, sh.base = p.WithoutCode(), version, r.handler.Shadowing(), r.version
		sh.refused = false // of the version before
	}
	m.mu.Unlock()
	if err == nil {
		m.cfg.Log.Info("plugin runs beside the one that decides", "handler", r.name, "version", p.Manifest.Version, "path", p.Path, "digest", p.Digest)
	}
	return err
}

func (m *Manager) unshadow(r *record) {
	m.mu.Lock()
	had := r.shadow != nil
	r.shadow = nil
	m.mu.Unlock()
	if had {
		r.handler.Unshadow()
	}
}

// PromoteDue promotes the shadows that have agreed for long enough, and reports whether there
// was one. A plugin that is being changed is left for the next time.
func (m *Manager) PromoteDue(ctx context.Context) (promoted bool) {
	for _, r := range m.all() {
		if m.due(r) == nil || !r.tryLock() {
			continue
		}
		err := m.promoteDue(ctx, r)
		r.unlock()
		switch {
		case err == nil:
			promoted = true
		case !errors.Is(err, errNotDue) && ctx.Err() == nil:
			m.cfg.Log.Error("plugin was not promoted", "handler", r.name, "error", err.Error())
		}
	}
	return promoted
}

var errNotDue = errors.New("it is not due to be promoted")

// promoteDue promotes the shadow of r, whose token the caller holds, if it is due still. One
// that fails is not tried again, until there is another version.
func (m *Manager) promoteDue(ctx context.Context, r *record) error {
	sh := m.due(r)
	if sh == nil {
		return errNotDue
	}
	err := m.promote(ctx, r)
	if err != nil && ctx.Err() == nil {
		m.mu.Lock()
		sh.refused = true
		m.mu.Unlock()
	}
	return err
}

// due returns the shadow of r that is to be promoted now, nil if there is none.
func (m *Manager) due(r *record) *shadowRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	sh, now := r.shadow, r.handler.Shadowing()
	if sh == nil || sh.version == "" || sh.refused {
		return nil
	}
	if sh.base != r.version { // it runs beside another version now
		sh.base, sh.from = r.version, now
	}
	if !isDue(sh.after, now.Less(sh.from)) {
		return nil
	}
	return sh
}

// ErrNoPlugin is the error of a name that no plugin has.
var ErrNoPlugin = errors.New("there is no plugin of that name")

// Promote lets the version beside the plugin called name take its place. It waits for
// whoever is changing the plugin, and no longer than ctx lasts.
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
	err := m.promote(m.ctx, r) // the end of ctx does not stop it halfway
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.statusLocked(), err
}

// promote lets the shadow of r, whose token the caller holds, take its place.
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
