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

// ProbeStatus is the state of a probe. Its JSON is an item of the agent's /api/v1/probes.
type ProbeStatus struct {
	Namespace   string         `json:"namespace"`
	Pod         string         `json:"pod"`
	UID         types.UID      `json:"uid"`
	Container   string         `json:"container"`
	ContainerID string         `json:"containerID"`
	Kind        probe.Kind     `json:"kind"`
	Handler     string         `json:"handler"`
	Result      results.Result `json:"result"` // decided
	Run         int            `json:"run"`    // consecutive equal results
	OnHold      bool           `json:"onHold"`
	Paused      bool           `json:"paused"`
	// Gate says why the probe makes no attempts: "initial delay, 4s left"; "" if it makes some.
	Gate    string       `json:"gate,omitzero"`
	Spec    SpecStatus   `json:"spec"`
	Last    *TickStatus  `json:"last"` // null before the first tick
	Next    time.Time    `json:"next,omitzero"`
	History []TickStatus `json:"history"` // newest first; empty where none is kept
}

// SpecStatus is the spec of a probe, with durations as Go writes them.
type SpecStatus struct {
	InitialDelay     string `json:"initialDelay"`
	Period           string `json:"period"`
	Timeout          string `json:"timeout"`
	SuccessThreshold int    `json:"successThreshold"`
	FailureThreshold int    `json:"failureThreshold"`
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

// Explanation is the state of a probe, why its decided result is what it is, and what happened
// inside its past ticks. Its JSON is the response of the agent's /api/v1/probes/…/explain.
type Explanation struct {
	Probe   ProbeStatus `json:"probe"`   // without History
	Summary string      `json:"summary"` // see [group.Explanation]
	Ticks   []TickTrace `json:"ticks"`   // newest first; empty where no history is kept
}

// TickTrace is a past tick with what happened inside its attempts.
type TickTrace = group.TickTrace

// Explain returns the explanation of one probe; false if there is none.
func (m *Manager) Explain(key Key) (Explanation, bool) {
	x, ok := m.group.Explain(key.id())
	if !ok {
		return Explanation{}, false
	}
	for i := range x.Ticks {
		showMetrics(&x.Ticks[i].TickStatus)
	}
	return Explanation{statusOf(x.Status), x.Summary, append([]TickTrace{}, x.Ticks...)}, true
}

// Latest returns the state of one probe without its History, which costs less; false if there is
// none.
func (m *Manager) Latest(key Key) (ProbeStatus, bool) {
	s, ok := m.group.Latest(key.id())
	if !ok {
		return ProbeStatus{}, false
	}
	return statusOf(s), true
}

// Select returns the probes for which match returns true, in no order. match must not keep its
// argument. Select costs less than [Manager.Probes], since it builds no state.
func (m *Manager) Select(match func(*worker.Info) bool) []worker.Info { return m.group.Infos(match) }

// SelectPod is [Manager.Select] of the probes of one pod. It takes a time in proportion to these.
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
	if s.Last != nil {
		showMetrics(s.Last)
	}
	for i := range s.History {
		showMetrics(&s.History[i])
	}
	return ProbeStatus{
		Namespace: s.Info.Namespace, Pod: s.Info.Pod, UID: types.UID(s.Info.PodUID), Container: s.Info.Container,
		ContainerID: s.ContainerID, Kind: s.Info.Kind, Handler: s.Info.Handler, Gate: s.Gate,
		Result: s.Decided, Run: s.Run, OnHold: s.OnHold, Paused: s.Paused, Next: s.Next, Last: s.Last, History: append([]TickStatus{}, s.History...),
		Spec: SpecStatus{
			InitialDelay: s.Spec.InitialDelay.String(), Period: s.Spec.Period.String(), Timeout: s.Spec.Timeout.String(),
			SuccessThreshold: s.Spec.SuccessThreshold, FailureThreshold: s.Spec.FailureThreshold,
		},
	}
}

// TickStatus is a past tick.
type TickStatus = group.TickStatus

// showMetrics makes nil metrics an empty list, so that their JSON is not null.
func showMetrics(t *TickStatus) {
	if t.Metrics == nil {
		t.Metrics = []probe.Metric{}
	}
}
