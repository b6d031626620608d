package manager

import (
	"bytes"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// Declared are the probes of a pod, parsed once and checked. It is immutable, and safe for concurrent use.
type Declared struct {
	pod  *v1.Pod
	list *list              // nil for a pod whose probes are all fields of its containers: they need no parsing
	make func() ProbeConfig // in place of list; see [DeclareOne]
}

// list is the content of a [Declared]. It is read-only.
type list struct {
	configs   []ProbeConfig // those that can be started, in the order in which AddPod starts them
	invalid   []probeName   // that have an error, or may be declared by an invalid annotation
	forbidden []probeName   // that [Declared.Refuse] took out
	errs      []error
	text      []error // the part of errs about the annotation
}

// Declare parses the probes of pod. typed are as in [Manager.AddPod]. The pod must not be modified later.
func Declare(pod *v1.Pod, typed ...ProbeConfig) *Declared {
	if _, annotated := pod.Annotations[Annotation]; !annotated && len(typed) == 0 {
		return &Declared{pod: pod}
	}
	return &Declared{pod: pod, list: declaredBy(pod, typed)}
}

// DeclareOne returns the one probe of pod that make returns. It is called whenever the probe is read, and
// returns the same each time: for tens of thousands of pods, a probe takes more memory than its ingredients.
func DeclareOne(pod *v1.Pod, make func() ProbeConfig) *Declared {
	return &Declared{pod: pod, make: make}
}

// Pod returns the pod. It is read-only.
func (d *Declared) Pod() *v1.Pod { return d.pod }

// Probes returns the probes that can be started, in the order in which AddPod starts them. They are
// read-only.
func (d *Declared) Probes() []ProbeConfig {
	configs := d.read().configs
	for i := range configs {
		if configs[i].Path != nil {
			continue
		}
		configs = slices.Clone(configs)
		for ; i < len(configs); i++ {
			configs[i].Path = configs[i].path()
		}
		break
	}
	return configs
}

// Errors returns an error for each probe that cannot be started. It is a [*field.Error] for an invalid
// probe, and begins with the path of a field for one of a caller.
func (d *Declared) Errors() []error { return slices.Clone(d.read().errs) }

// Refuse returns d without the probes for which check returns an error, which is one of the Errors of the
// result. [Manager.Apply] never starts such a probe, and ends it if it runs. It counts as one that has
// not run yet.
func (d *Declared) Refuse(check func(*ProbeConfig) error) *Declared {
	all := d.Probes()
	next := *d.read()
	next.configs, next.errs = nil, slices.Clone(next.errs)
	next.forbidden = slices.Clone(next.forbidden)
	for i := range all {
		c := all[i]
		if err := check(&c); err != nil {
			next.forbidden, next.errs = append(next.forbidden, all[i].name()), append(next.errs, err)
			continue
		}
		next.configs = append(next.configs, all[i])
	}
	return &Declared{pod: d.pod, list: &next}
}

// WithStatus returns d with another status of its pod. They share the rest.
func (d *Declared) WithStatus(status v1.PodStatus) *Declared {
	pod := *d.pod
	pod.Status = status
	return d.WithPod(&pod)
}

// WithPod returns d with its pod in another state: pod has the same spec and annotations.
func (d *Declared) WithPod(pod *v1.Pod) *Declared { return &Declared{pod, d.list, d.make} }

// Plain reports whether all probes are fields of containers: their handlers are built in, and their configs
// have no references to secrets.
func (d *Declared) Plain() bool { return d.list == nil && d.make == nil }

// Same reports whether other has the same probes, with no regard to their pods. It compares no Bind.
func (d *Declared) Same(other *Declared) bool {
	same := func(a, b ProbeConfig) bool {
		return a.name() == b.name() && a.Handler == b.Handler && bytes.Equal(a.Config, b.Config) && a.Target == b.Target &&
			a.Spec == b.Spec && a.Paused == b.Paused && reflect.DeepEqual(a.TerminationGracePeriodSeconds, b.TerminationGracePeriodSeconds)
	}
	return d.list != nil && d.list == other.list || slices.EqualFunc(d.read().configs, other.read().configs, same)
}

func (d *Declared) read() *list {
	switch {
	case d.list != nil:
		return d.list
	case d.make != nil:
		return declaredBy(d.pod, []ProbeConfig{d.make()})
	}
	return declaredBy(d.pod, nil)
}

func (d *Declared) uid() types.UID { return d.pod.UID }

// podRecord is what the manager knows of a pod beside its workers: which probes it declares, as the last
// AddPod or UpdatePod has found. It is read-only. A pod whose fields tell all has none, which is nil.
type podRecord struct {
	annotation digest            // of the text of the annotation
	declared   []probeName       // valid probes, also those that could not be started
	refused    []probeName       // probes that could not be started, or that an invalid annotation may declare
	started    map[string]string // IDs of containers whose startup probe had succeeded when it was stopped, by name
}

// ownProbe returns the probe that is a field of c; nil if there is none.
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
// annotation only if r is not of that one. spec is nil if the container can declare none.
func (m *Manager) declares(pod *v1.Pod, r *podRecord, spec *v1.Container, name probeName) bool {
	if spec != nil && ownProbe(spec, name.kind) != nil || r != nil && slices.Contains(r.declared, name) || r.refuses(name) {
		return true
	}
	text, ok := pod.Annotations[Annotation]
	if !ok || r != nil && r.annotation == m.textDigest(text) {
		return false
	}
	l := declaredBy(pod, nil)
	return slices.Contains(l.names(), name) || slices.Contains(l.invalid, name)
}

// names returns the probes that can be started.
func (l *list) names() []probeName {
	names := make([]probeName, len(l.configs))
	for i := range l.configs {
		names[i] = l.configs[i].name()
	}
	return names
}

func (r *podRecord) refuses(name probeName) bool { return slices.Contains(r.refusals(), name) }

func (r *podRecord) refusals() []probeName {
	if r == nil {
		return nil
	}
	return r.refused
}

// hasStarted reports whether a startup probe that was stopped since had succeeded.
func (r *podRecord) hasStarted(container, id string) bool {
	return r != nil && id != "" && r.started[container] == id
}

// without returns r without some containers; nil if there are no others.
func (r *podRecord) without(containers map[string]bool) *podRecord {
	if r == nil {
		return nil
	}
	of := func(n probeName) bool { return containers[n.container] }
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

// declare records what a pod declares, unless its fields tell all. refused are the probes that could not
// be started.
func (m *Manager) declare(d *Declared, refused []probeName) {
	switch uid := d.uid(); {
	case !d.Plain() || len(refused) > 0:
		next := &podRecord{annotation: m.textDigest(d.pod.Annotations[Annotation]), declared: d.read().names(), refused: slices.Clip(refused)}
		m.rerecord(uid, func(*podRecord) *podRecord { return next })
	case m.record(uid) != nil: // seldom: the usual case needs no write lock
		m.rerecord(uid, func(*podRecord) *podRecord { return nil })
	}
}

func (m *Manager) textDigest(annotation string) digest {
	return digest(maphash.String(m.seed, annotation))
}

// rerecord replaces the record of a pod.
func (m *Manager) rerecord(uid types.UID, next func(*podRecord) *podRecord) {
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
	m.rerecord(uid, func(r *podRecord) *podRecord {
		var next podRecord
		if r != nil {
			next = *r
		}
		next.started = started
		return &next
	})
}

// Refused returns the probes of a pod that it declares, or may declare in the part of its annotation
// that is invalid, and that could not be started: each counts as one that has not run yet.
func (m *Manager) Refused(uid types.UID) (keys []Key) {
	for _, n := range m.record(uid).refusals() {
		key := Key{uid, n.container, n.kind}
		if !m.group.Has(key.id()) && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
