package live

import (
	"time"

	"github.com/daeace23/prober/handlers/shadow"
	"github.com/daeace23/prober/plugin/admit"
)

// Status is the status of a plugin.
type Status struct {
	Name       string
	State      State
	Plugin     admit.Plugin // the running version, or the one that a probe would load; without code; zero if withdrawn
	Generation int          // number of versions and settings so far
	Probes     int
	Changed    time.Time // when a version was last loaded or refused
	Err        error     // reason for which the newest version does not run
	Stats      Stats     // of all generations
	Compared   shadow.Counts
	Shadow     *ShadowStatus // nil: there is none
}

// ShadowStatus is the status of a shadow.
type ShadowStatus struct {
	Plugin       admit.Plugin // without code; zero before the first version runs
	Err          error        // reason for which the newest version does not run
	Compared     shadow.Counts
	PromoteAfter admit.PromoteAfter
}

// Latest returns the latest snapshot, without code.
func (m *Manager) Latest() *admit.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest
}

// Statuses returns the status of every usable plugin, sorted by name. It leaves out unused plugins that
// are part of this program.
func (m *Manager) Statuses() []Status {
	records := m.allRecords()
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Status, 0, len(records))
	for _, r := range records {
		if s := r.statusLocked(); s.State != Unused || s.Err != nil || s.Plugin.Verdict.State != admit.Shipped {
			all = append(all, s)
		}
	}
	return all
}

// Status returns the status of the plugin called name; ok is false if there is none.
func (m *Manager) Status(name string) (s Status, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.records[name]
	if r == nil {
		return s, false
	}
	return r.statusLocked(), true
}

// statusLocked returns the status of r. It takes the version from the generation that probes use, so
// that each version that a probe runs appears in the status.
func (r *record) statusLocked() Status {
	now, number, err := r.currentLocked()
	s := Status{
		Name: r.name, State: Failed, Plugin: r.plugin, Generation: number, Probes: r.handler.Live(), Changed: r.changed, Err: err,
		Stats: r.totalLocked(), Compared: r.handler.Shadowing(),
	}
	switch {
	case now != nil:
		s.State, s.Plugin = Running, now.plugin
	case r.state == Withdrawn:
		s.State, s.Plugin = Withdrawn, admit.Plugin{}
	case err == nil:
		s.State = Unused
	}
	if sh := r.shadow; sh != nil {
		s.Shadow = &ShadowStatus{Plugin: sh.plugin, Err: sh.err, Compared: s.Compared.Less(sh.from), PromoteAfter: sh.after}
	}
	return s
}
