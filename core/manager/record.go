package manager

import (
	"hash/maphash"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// podRecord has the probes that a pod declares, as of the last AddPod or UpdatePod. It is read-only. If the
// fields of a pod alone declare its probes, its record is nil.
type podRecord struct {
	annotation digest            // digest of the annotation's text
	declared   []declared.Name   // valid probes, including those that could not be started
	refused    []declared.Name   // probes that could not be started, or that an invalid annotation may declare
	started    map[string]string // container IDs by name of containers whose startup probe had succeeded before it was stopped
}

// ownProbe returns the probe in a field of c; nil if there is none.
func ownProbe(c *v1.Container, kind probe.Kind) *v1.Probe {
	switch kind {
	case probe.Startup:
		return c.StartupProbe
	case probe.Readiness:
		return c.ReadinessProbe
	default:
		return c.LivenessProbe
	}
}

// declares reports whether a pod with record r declares a probe that has no worker. It parses the
// annotation only if it differs from the one in r. spec is nil if the container cannot declare probes.
func (m *Manager) declares(pod *v1.Pod, r *podRecord, spec *v1.Container, name declared.Name) bool {
	if spec != nil && ownProbe(spec, name.Kind) != nil || r != nil && slices.Contains(r.declared, name) || r.refuses(name) {
		return true
	}
	text, ok := pod.Annotations[declared.Annotation]
	if !ok || r != nil && r.annotation == m.textDigest(text) {
		return false
	}
	l := declared.Parse(pod).List()
	return slices.Contains(l.Names(), name) || slices.Contains(l.Invalid, name)
}

func (r *podRecord) refuses(name declared.Name) bool { return slices.Contains(r.refusals(), name) }

func (r *podRecord) refusals() []declared.Name {
	if r == nil {
		return nil
	}
	return r.refused
}

// hasStarted reports whether the startup probe of the container had succeeded before it was stopped.
func (r *podRecord) hasStarted(container, id string) bool {
	return r != nil && id != "" && r.started[container] == id
}

// without returns r without the given containers; nil if nothing is left.
func (r *podRecord) without(containers map[string]bool) *podRecord {
	if r == nil {
		return nil
	}
	of := func(n declared.Name) bool { return containers[n.Container] }
	next := &podRecord{r.annotation, slices.DeleteFunc(slices.Clone(r.declared), of), slices.DeleteFunc(slices.Clone(r.refused), of), maps.Clone(r.started)}
	maps.DeleteFunc(next.started, func(name, _ string) bool { return containers[name] })
	if len(next.declared)+len(next.refused)+len(next.started) == 0 {
		return nil
	}
	return next
}

// record returns the record of a pod; nil if it has none.
func (m *Manager) record(uid types.UID) *podRecord {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.records[uid]
}

// declare records the probes that a pod declares, unless its fields alone declare them. refused are the
// probes that could not be started.
func (m *Manager) declare(d *declared.Pod, refused []declared.Name) {
	switch uid := d.Pod().UID; {
	case !d.Plain() || len(refused) > 0:
		next := &podRecord{annotation: m.textDigest(d.Pod().Annotations[declared.Annotation]), declared: d.List().Names(), refused: slices.Clip(refused)}
		m.updateRecord(uid, func(*podRecord) *podRecord { return next })
	case m.record(uid) != nil: // rare: the usual case needs no write lock
		m.updateRecord(uid, func(*podRecord) *podRecord { return nil })
	}
}

func (m *Manager) textDigest(annotation string) digest {
	return digest(maphash.String(m.seed, annotation))
}

// updateRecord replaces the record of a pod.
func (m *Manager) updateRecord(uid types.UID, next func(*podRecord) *podRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := next(m.records[uid]); r != nil {
		m.records[uid] = r
	} else {
		delete(m.records, uid)
	}
}

// keepStarted records which startup probes have succeeded, before they are stopped.
func (m *Manager) keepStarted(uid types.UID, containers map[string]bool) {
	started := make(map[string]string)
	for name := range containers {
		s, _ := m.group.Latest(probeID{Key: uid, Task: name, Kind: probe.Startup})
		if s.ContainerID != "" && s.Decided == results.Success {
			started[name] = s.ContainerID
		}
	}
	if len(started) == 0 {
		return
	}
	m.updateRecord(uid, func(r *podRecord) *podRecord {
		var next podRecord
		if r != nil {
			next = *r
		}
		next.started = started
		return &next
	})
}

// Refused returns the probes of a pod that could not be started, and the probes that the invalid part of
// its annotation may declare. Each counts as not run yet.
func (m *Manager) Refused(uid types.UID) (keys []Key) {
	for _, n := range m.record(uid).refusals() {
		key := Key{uid, n.Container, n.Kind}
		if !m.group.Has(key.id()) && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
