package live

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"time"

	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/probe"
)

// record is the state of one plugin.
type record struct {
	name    string           // read-only
	handler *replace.Handler // read-only
	token   chan struct{}    // full while a goroutine loads, replaces or drops the plugin

	// Owned by the holder of the token.
	registered bool
	seen       int // number of the newest applied snapshot

	// Guarded by Manager.mu, and written by the holder of the token.
	state       State
	plugin      admit.Plugin  // the running version, or the one that a probe would load; without code
	version     string        // the running version; "" unless Running
	lastFound   string        // version last found at place; differs from version after a promotion
	place       string        // path of the plugin
	tried       string        // version of the last attempt to load
	err         error         // error of that attempt
	errOf       probe.Handler // current handler when err was set
	changed     time.Time     // when tried or err last changed
	shadow      *shadowRecord
	generations map[probe.Handler]*generation // not yet closed
	past        Stats                         // total of the closed generations
	idleSince   time.Time                     // start of being unused; zero while in use

	preparing int  // probes that are being prepared; guarded by Manager.mu
	loading   bool // it is being loaded for its first probe; guarded by Manager.mu
}

// generation is one loaded version of a plugin.
type generation struct {
	plugin admit.Plugin // without code; guarded as the record
	stats  func() Stats
}

// lock locks r for loading, replacing and dropping it. It returns an error if ctx ends first.
func (r *record) lock(ctx context.Context) error {
	select {
	case r.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryLock locks r if it is unlocked, and reports whether it did.
func (r *record) tryLock() bool {
	select {
	case r.token <- struct{}{}:
		return true
	default:
		return false
	}
}

func (r *record) unlock() { <-r.token }

func (r *record) knownLocked() known {
	return known{state: r.state, runs: r.version, lastFound: r.lastFound, tried: r.tried, bad: r.err != nil}
}

// currentLocked returns the generation that probes use, nil if there is none, and the number of
// generations so far. err is the reason for which the newest version does not run.
func (r *record) currentLocked() (g *generation, number int, err error) {
	h, number := r.handler.Current()
	if h != nil {
		g = r.generations[h]
	}
	if r.errOf == h {
		err = r.err
	}
	return g, number, err
}

// settleLocked records the result of an attempt to load a version.
func (r *record) settleLocked(version string, err error) {
	if r.tried != version || (r.err == nil) != (err == nil) {
		r.changed = time.Now()
	}
	r.tried, r.err = version, err
	r.errOf, _ = r.handler.Current()
}

// clearLocked records that no version runs.
func (r *record) clearLocked(state State) {
	r.state, r.version, r.lastFound, r.tried, r.err = state, "", "", "", nil
	r.shadow, r.idleSince, r.changed = nil, time.Time{}, time.Now()
}

// newRecord returns the record of the plugin called name, which it creates if necessary.
func (m *Manager) newRecord(name string) *record {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.records[name]; r != nil {
		return r
	}
	r := &record{
		name: name, token: make(chan struct{}, 1), generations: make(map[probe.Handler]*generation),
		past: Stats{Limits: make(map[plugin.LimitName]uint64)},
	}
	r.handler = replace.New(replace.Config{Name: name, Closed: func(h probe.Handler, err error) { m.closed(r, h, err) }})
	m.records[name] = r
	return r
}

// closed adds the counts of a closed generation to r.past. err is the result of its Close.
func (m *Manager) closed(r *record, h probe.Handler, err error) {
	m.mu.Lock()
	if g := r.generations[h]; g != nil {
		delete(r.generations, h)
		last := g.stats()
		last.Idle, last.Busy = 0, 0
		r.past.add(last)
	}
	m.mu.Unlock()
	if err != nil {
		m.cfg.Log.Error("plugin could not be closed", "handler", r.name, "error", err.Error())
	}
}

// usageLocked returns the users of r.
func (m *Manager) usageLocked(r *record) usage {
	return usage{probes: r.handler.Live() + r.preparing, holds: m.holds[r.name]}
}

// isTakenLocked reports whether another running plugin was loaded from the file at path.
func (m *Manager) isTakenLocked(r *record, path string) (by string, taken bool) {
	for _, other := range m.records {
		if other != r && other.state == Running && other.place == path {
			return other.name, true
		}
	}
	return "", false
}

// found returns the entry of r in v. The caller holds r's token.
func (m *Manager) found(r *record, v *admit.Snapshot) found {
	e := v.Plugin(r.name)
	f := found{state: e.State, duplicateName: e.Rival != nil}
	if e.Loadable() {
		f.version = m.versionOf(e.Plugin)
		return f
	}
	f.inError = v.About(r.name, r.place) != nil
	f.fileRemoved = r.state == Running && v.IsGone(r.place)
	return f
}

// versionOf returns a digest of a version: of its bytes, manifest, settings and
// [Config.Fingerprint].
func (m *Manager) versionOf(p admit.Plugin) string {
	manifest := *p.Manifest
	schema := manifest.Config.JSON()
	manifest.Config = nil
	more := ""
	if m.cfg.Fingerprint != nil {
		more = m.cfg.Fingerprint(p)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%+v\n%s\n%s\n%+v\n%q\n%q\n%s", p.Digest, p.Beside, manifest, schema, p.Grants, p.Limits, p.Folders, p.Env, more))
	return string(sum[:])
}

// Stats are the counts of a plugin.
type Stats struct {
	Idle, Busy int                         // number of instances
	Denied     uint64                      // number of denied dials
	Limits     map[plugin.LimitName]uint64 // how often each limit was reached
}

// add adds the counts of another generation. s.Limits is not nil.
func (s *Stats) add(o Stats) {
	s.Idle += o.Idle
	s.Busy += o.Busy
	s.Denied += o.Denied
	for limit, n := range o.Limits {
		s.Limits[limit] += n
	}
}

// totalLocked returns the counts of all generations of r.
func (r *record) totalLocked() Stats {
	total := r.past
	total.Limits = maps.Clone(r.past.Limits)
	for _, g := range r.generations {
		total.add(g.stats())
	}
	return total
}
