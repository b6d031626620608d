package manager

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// ProbeStatus is what can be seen of a probe from outside; its JSON is the item of
// the agent's /api/v1/probes.
type ProbeStatus struct {
	Namespace   string         `json:"namespace"`
	Pod         string         `json:"pod"`
	UID         types.UID      `json:"uid"`
	Container   string         `json:"container"`
	ContainerID string         `json:"containerID"`
	Kind        probe.Kind     `json:"kind"`
	Handler     string         `json:"handler"`
	Result      results.Result `json:"result"` // decided
	Run         int            `json:"run"`    // equal results running
	OnHold      bool           `json:"onHold"`
	Paused      bool           `json:"paused"`
	Spec        SpecStatus     `json:"spec"`
	Last        *TickStatus    `json:"last"` // null before the first tick
	Next        time.Time      `json:"next,omitzero"`
	History     []TickStatus   `json:"history"` // newest first; empty where none is kept
}

// SpecStatus is a probe's spec; durations in Go's notation.
type SpecStatus struct {
	InitialDelay     string `json:"initialDelay"`
	Period           string `json:"period"`
	Timeout          string `json:"timeout"`
	SuccessThreshold int    `json:"successThreshold"`
	FailureThreshold int    `json:"failureThreshold"`
}

// Key returns the identity of the probe.
func (s *ProbeStatus) Key() Key { return Key{s.UID, s.Container, s.Kind} }

// Probes returns the present state of all probes, sorted by namespace, pod, container
// and kind.
func (m *Manager) Probes() []ProbeStatus {
	m.mu.RLock()
	entries := make([]*entry, 0, m.memory.probes.Load())
	for _, pod := range m.pods {
		entries = append(entries, pod...)
	}
	m.mu.RUnlock()
	all := make([]ProbeStatus, 0, len(entries))
	for _, e := range entries {
		all = append(all, e.status())
	}
	slices.SortFunc(all, func(a, b ProbeStatus) int {
		return cmp.Or(
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod),
			cmp.Compare(a.UID, b.UID), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}

func (e *entry) status() ProbeStatus {
	s := e.worker.Status()
	last, kept := e.record.ticks()
	if s.Quarantine != "" { // ticks that are skipped leave no other trace
		if last == nil {
			last = &TickStatus{Result: probe.Unknown, Time: s.QuarantinedSince}
		}
		last.Error = s.Quarantine
	}
	if last != nil {
		last.showMetrics()
	}
	for i := range kept {
		kept[i].showMetrics()
	}
	return ProbeStatus{
		Namespace: s.Info.Namespace, Pod: s.Info.Pod, UID: types.UID(s.Info.PodUID), Container: s.Info.Container,
		ContainerID: s.ContainerID, Kind: s.Info.Kind, Handler: s.Info.Handler,
		Result: s.Decided, Run: s.Run, OnHold: s.OnHold, Paused: s.Paused, Next: s.Next, Last: last, History: append([]TickStatus{}, kept...),
		Spec: SpecStatus{
			InitialDelay: s.Spec.InitialDelay.String(), Period: s.Spec.Period.String(), Timeout: s.Spec.Timeout.String(),
			SuccessThreshold: s.Spec.SuccessThreshold, FailureThreshold: s.Spec.FailureThreshold,
		},
	}
}
