package live

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/internal/safelog"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/probe"
)

// Config configures a [Manager].
type Config struct {
	// Registry gets a handler for each plugin that may be used.
	Registry *handlers.Registry
	// Load loads a plugin: it compiles a module, or starts a program.
	Load func(context.Context, admit.Plugin) (Loaded, error)
	// Fingerprint returns what identifies a version beside its bytes, manifest and settings,
	// such as the command of a check. It may be nil.
	Fingerprint func(admit.Plugin) string
	// Scan takes a snapshot for the first probe of a plugin. It reads the plugins whose names are
	// wanted: that one, and those of [Manager.Wants] that are not merely named by a manifest. Each of
	// these is read when its own first probe asks for it.
	Scan func(wanted func(name string) bool) (*admit.Snapshot, error)
	// Demanded is called with the result of loading a plugin for a probe. It may be nil.
	Demanded func(error)
	// IdleAfter is how long an unused plugin stays loaded.
	IdleAfter time.Duration
	Log       *slog.Logger
}

// Loaded is a plugin that was loaded.
type Loaded struct {
	Handler probe.Handler // a [probe.Preparer] and an [io.Closer]
	Stats   func() Stats
}

// maxLoads bounds how many plugins [Manager.Apply] loads or replaces at once.
const maxLoads = 4

// Manager has a record for each plugin of a snapshot. It is safe for concurrent use.
type Manager struct {
	ctx context.Context // its end ends every wait for a plugin
	cfg Config

	preparing sync.WaitGroup // of handlers, by plugins
	closing   sync.WaitGroup // of records that were dropped

	mu      sync.Mutex
	latest  *admit.Snapshot      // without code
	records map[string]*record   // by name
	holds   map[string]int       // by name, also of built-in and unknown handlers
	silent  map[string]time.Time // negative cache: until when a plugin that did not answer is not called
}

// New returns a Manager without plugins. The end of ctx ends every wait for a plugin.
func New(ctx context.Context, cfg Config) *Manager {
	cfg.Log = safelog.New(cfg.Log)
	return &Manager{
		ctx: ctx, cfg: cfg, latest: new(admit.Snapshot), records: make(map[string]*record),
		holds: make(map[string]int), silent: make(map[string]time.Time),
	}
}

// Close closes the plugins, all at the same time. The context of New must have ended.
func (m *Manager) Close() {
	for _, r := range m.all() {
		m.closing.Go(func() { _ = r.handler.Close() }) // errors go to closed
	}
	m.preparing.Wait()
	m.closing.Wait()
}

// Apply applies v to all plugins. A plugin with unchanged bytes and settings is not changed. If
// a new version cannot be used, the old one goes on. It is tried again when it has changed, or
// with retry. The error joins those of all plugins. changed reports whether a plugin has another
// version now.
func (m *Manager) Apply(ctx context.Context, v *admit.Snapshot, retry bool) (changed bool, err error) {
	m.Note(v)
	names := v.Names()
	for _, r := range m.all() {
		if !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	did, errs := make([]bool, len(names)), make([]error, len(names))
	var work sync.WaitGroup
	slots := make(chan struct{}, maxLoads)
	for i, name := range names {
		work.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			did[i], errs[i] = m.applyTo(ctx, name, v, retry)
		})
	}
	work.Wait()
	changed = slices.Contains(did, true)
	if ctx.Err() != nil {
		return changed, context.Cause(ctx)
	}
	return changed, errors.Join(append([]error{v.Err()}, errs...)...)
}

// Note makes v the latest snapshot, for the status. It changes no plugin.
func (m *Manager) Note(v *admit.Snapshot) {
	light := v.WithoutCode()
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.Number >= m.latest.Number {
		m.latest = light
	}
}

// applyTo applies v to the plugin called name.
func (m *Manager) applyTo(ctx context.Context, name string, v *admit.Snapshot, retry bool) (changed bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	r := m.record(name)
	if e := v.Plugin(name); r == nil && (e.Loadable() || e.State == admit.Listed || e.State == admit.Away) {
		r = m.newRecord(name)
	}
	if r == nil {
		return false, v.WithoutPlugin(name)
	}
	if err := r.lock(ctx); err != nil {
		return false, err
	}
	defer r.unlock()
	if m.record(name) != r {
		return false, nil // it was dropped; the next snapshot makes a new record
	}
	return m.apply(ctx, r, v, retry)
}

// Hold prevents the plugins with these names from being unloaded, until release is called.
// release is called once. Names of other handlers are allowed.
func (m *Manager) Hold(names ...string) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		m.holds[name]++
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, name := range names {
			if m.holds[name]--; m.holds[name] == 0 {
				delete(m.holds, name)
			}
		}
	}
}

// Wants reports whether a snapshot must have the plugin called name read: something uses it, it
// runs, or it could not be loaded. One that was refused is read until it is not: what asked for it
// may try again then.
func (m *Manager) Wants(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holds[name] > 0 || m.wantsLocked(name)
}

// wantsLocked is [Manager.Wants] of a plugin that no manifest names.
func (m *Manager) wantsLocked(name string) bool {
	r := m.records[name]
	return m.latest.Plugin(name).State == admit.Refused || m.latest.Plugin(name).State == admit.Away || r != nil && (r.state != Unused || r.loading || r.handler.Live()+r.preparing > 0)
}

// UnloadUnused unloads the plugins that nothing has used for [Config.IdleAfter], and drops the
// errors of unused plugins. It reports whether there was such an error. It skips a plugin that
// is being changed.
func (m *Manager) UnloadUnused(now time.Time) (failed bool) {
	for _, r := range m.all() {
		if r.tryLock() {
			failed = m.unloadUnused(r, now) || failed
			r.unlock()
		}
	}
	return failed
}

// record returns the plugin called name, nil if there is none.
func (m *Manager) record(name string) *record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[name]
}

// all returns all plugins, by name.
func (m *Manager) all() (all []*record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.records)) {
		all = append(all, m.records[name])
	}
	return all
}
