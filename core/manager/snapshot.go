package manager

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// ProbeStatus is the state of a probe.
type ProbeStatus struct {
	Namespace   string
	Pod         string
	UID         types.UID
	Container   string
	ContainerID string
	Kind        probe.Kind
	Handler     string
	Target      string         // description of the target, on one line
	Result      results.Result // decided result
	Run         int            // consecutive equal results
	OnHold      bool
	Paused      bool
	// Gate describes why the probe makes no attempts: "initial delay, 4s left". It is "" if attempts are
	// made.
	Gate    string
	Spec    probe.Spec
	Last    *TickStatus // nil before the first tick
	Next    time.Time
	History []TickStatus // newest first; empty without a history
}

// Key returns the identity of the probe.
func (s *ProbeStatus) Key() Key { return Key{s.UID, s.Container, s.Kind} }

// Probe returns the state of one probe; false if there is none.
func (m *Manager) Probe(key Key) (ProbeStatus, bool) {
	s, ok := m.group.Status(key.id())
	if !ok {
		return ProbeStatus{}, false
	}
	return statusOf(s), true
}

// Explanation is the state of a probe, the reason for its decided result, and the events of its past ticks.
type Explanation struct {
	Probe   ProbeStatus // without History
	Summary string      // see [group.Explanation]
	Ticks   []TickTrace // newest first; empty without a history
}

// TickTrace is a past tick with the events of its attempts.
type TickTrace = group.TickTrace

// Explain returns the explanation of one probe; false if there is none.
func (m *Manager) Explain(key Key) (Explanation, bool) {
	x, ok := m.group.Explain(key.id())
	if !ok {
		return Explanation{}, false
	}
	return Explanation{statusOf(x.Status), x.Summary, x.Ticks}, true
}

// Target returns the Target of a probe's [ProbeStatus]; "" if the probe does not exist.
func (m *Manager) Target(key Key) string { return m.group.Target(key.id()) }

// Labels returns the labels of the pod of a probe, see [declared.Pod.Labels]; false if the probe does not
// exist. They are read-only, and shared by the probes of the pod. An update of the pod replaces them.
func (m *Manager) Labels(key Key) (labels map[string]string, ok bool) {
	p, ok := m.group.Current(key.id())
	if !ok || p.Task.Pod == nil {
		return nil, false
	}
	return p.Task.Pod.Labels, true
}

// Latest returns the state of one probe without its History, which costs less than [Manager.Probe]; false
// if there is none.
func (m *Manager) Latest(key Key) (ProbeStatus, bool) {
	s, ok := m.group.Latest(key.id())
	if !ok {
		return ProbeStatus{}, false
	}
	return statusOf(s), true
}

// Select returns the probes for which match returns true, in no particular order. match must not keep its
// argument. Select costs less than [Manager.Probes], because it builds no states.
func (m *Manager) Select(match func(*worker.Info) bool) []worker.Info { return m.group.Infos(match) }

// SelectPod is [Manager.Select] for the probes of one pod. Its time is proportional to their number.
func (m *Manager) SelectPod(uid types.UID, match func(*worker.Info) bool) []worker.Info {
	return m.group.InfosOf(uid, match)
}

// Probes returns the state of all probes, sorted by namespace, pod, container and kind.
func (m *Manager) Probes() []ProbeStatus {
	all := []ProbeStatus{}
	for _, s := range m.group.All() {
		all = append(all, statusOf(s))
	}
	slices.SortFunc(all, func(a, b ProbeStatus) int {
		return cmp.Or(
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
			cmp.Compare(a.UID, b.UID), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}

func statusOf(s group.Status) ProbeStatus {
	return ProbeStatus{
		Namespace: s.Info.Namespace, Pod: s.Info.Pod, UID: types.UID(s.Info.PodUID), Container: s.Info.Container,
		ContainerID: s.ContainerID, Kind: s.Info.Kind, Handler: s.Info.Handler, Target: s.Target, Gate: s.Gate,
		Result: s.Decided, Run: s.Run, OnHold: s.OnHold, Paused: s.Paused, Next: s.Next, Last: s.Last, History: s.History, Spec: s.Spec,
	}
}

// TickStatus describes a past tick.
type TickStatus = group.TickStatus
