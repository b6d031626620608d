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
	// Registry is where the manager registers a handler for each usable plugin.
	Registry *handlers.Registry
	// Load loads a plugin: it compiles a module, or starts a program.
	Load func(context.Context, admit.Plugin) (Loaded, error)
	// Fingerprint returns a string that also identifies a version, in addition to its bytes,
	// manifest and settings; for example of the command of a check. It may be nil.
	Fingerprint func(admit.Plugin) string
	// Scan takes a snapshot for the first probe of a plugin. It reads the plugins whose names are
	// wanted: the plugin of the probe and the plugins in use. A plugin that is only named by a
	// manifest is read for its own first probe.
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

// maxLoads is the maximum number of plugins that [Manager.Apply] loads or replaces concurrently.
const maxLoads = 4

// Manager has a record for each plugin of a snapshot. It is safe for concurrent use.
type Manager struct {
	ctx context.Context // cancels all waits for plugins
	cfg Config

	preparing sync.WaitGroup // calls of plugins that prepare handlers
	closing   sync.WaitGroup // closes of dropped records

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
	for _, r := range m.allRecords() {
		m.closing.Go(func() { _ = r.handler.Close() }) // closed handles the errors
	}
	m.preparing.Wait()
	m.closing.Wait()
}

// Apply applies v to all plugins. It keeps a plugin with unchanged bytes and settings. If a new
// version cannot be used, the old one keeps running. Apply tries the new version again when it has
// changed, or if retry is set. The error joins the errors of all plugins. changed reports whether
// the version of a plugin has changed.
func (m *Manager) Apply(ctx context.Context, v *admit.Snapshot, retry bool) (changed bool, err error) {
	m.Note(v)
	names := v.Names()
	for _, r := range m.allRecords() {
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
		return false, nil // the record was dropped; the next snapshot makes a new one
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

// Wants reports whether a snapshot must read the plugin called name: it is in use, it runs, or it
// could not be loaded. A refused plugin is read until it is admitted, so that its user can try again.
func (m *Manager) Wants(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holds[name] > 0 || m.wantsLocked(name)
}

// wantsLocked is [Manager.Wants] for a plugin without holds.
func (m *Manager) wantsLocked(name string) bool {
	r := m.records[name]
	return m.latest.Plugin(name).State == admit.Refused || m.latest.Plugin(name).State == admit.Away || r != nil && (r.state != Unused || r.loading || r.handler.Live()+r.preparing > 0)
}

// UnloadUnused unloads the plugins that nothing has used for [Config.IdleAfter], and drops the
// errors of unused plugins. It reports whether there was such an error. It skips a plugin that
// is being changed.
func (m *Manager) UnloadUnused(now time.Time) (failed bool) {
	for _, r := range m.allRecords() {
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

// allRecords returns the records of all plugins, sorted by name.
func (m *Manager) allRecords() (all []*record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.records)) {
		all = append(all, m.records[name])
	}
	return all
}
