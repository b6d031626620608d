package manager

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

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
	Spec        SpecStatus     `json:"spec"`
	Last        *TickStatus    `json:"last"` // null before the first tick
	Next        time.Time      `json:"next,omitzero"`
	History     []TickStatus   `json:"history"` // newest first; empty where none is kept
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
	e := m.entry(key)
	if e == nil {
		return ProbeStatus{}, false
	}
	return e.status(), true
}

// Select returns the probes for which match returns true, in no order. match must not keep its
// argument. Select costs less than [Manager.Probes], since it builds no state.
func (m *Manager) Select(match func(*worker.Info) bool) []worker.Info {
	var selected []worker.Info
	var info worker.Info // one for all calls of match
	for _, e := range m.entries() {
		if info = e.worker.Info(); match(&info) {
			selected = append(selected, info)
		}
	}
	return selected
}

// entries returns all entries, in no order.
func (m *Manager) entries() []*entry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	entries := make([]*entry, 0, m.memory.probes.Load())
	for _, pod := range m.pods {
		entries = append(entries, pod...)
	}
	return entries
}

// Probes returns the state of all probes, sorted by namespace, pod, container and kind.
func (m *Manager) Probes() []ProbeStatus {
	entries := m.entries()
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
	if s.Quarantine != "" { // skipped ticks are not recorded
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

const (
	historyLength    = 20  // ticks of one probe
	historyOutput    = 256 // bytes of output of a tick that is not the last
	historyItemBytes = 96  // about the size of a tick without its texts
)

// history is the byte budget that the records of all probes share.
type history struct {
	budget int64
	probes atomic.Int64
}

func (h *history) newRecord() *record { return &record{history: h} }

// share returns how many bytes of past ticks one probe may keep.
func (h *history) share() int64 { return h.budget / max(h.probes.Load(), 1) }

// TickStatus is a past tick.
type TickStatus struct {
	Result          probe.Result   `json:"result"`
	Output          string         `json:"output"`
	Error           string         `json:"error"`
	Attempts        int            `json:"attempts"`
	Time            time.Time      `json:"time"`
	DurationSeconds float64        `json:"durationSeconds"`
	Metrics         []probe.Metric `json:"metrics"` // of the last tick only
	// Details is the JSON object of the outcome; only of the last tick, and only with a
	// history.
	Details json.RawMessage `json:"details,omitzero"`
}

// showMetrics makes nil metrics an empty list, so that their JSON is not null.
func (t *TickStatus) showMetrics() {
	if t.Metrics == nil {
		t.Metrics = []probe.Metric{}
	}
}

func (t *TickStatus) bytes() int64 {
	return int64(historyItemBytes + len(t.Output) + len(t.Error))
}

// record has the past ticks of one probe.
type record struct {
	history *history

	mu   sync.Mutex
	last *TickStatus
	past []TickStatus // oldest first, without the last
	used int64        // bytes of past
}

var _ worker.ProbeObserver = (*record)(nil)

// Tick implements [worker.ProbeObserver].
func (r *record) Tick(t *worker.Tick) {
	status := TickStatus{
		Result: t.Outcome.Result, Output: t.Outcome.Output, Attempts: t.Attempts, Time: t.Start,
		DurationSeconds: t.End.Sub(t.Start).Seconds(), Metrics: t.Outcome.Metrics,
	}
	if t.Err != nil {
		status.Result, status.Error = probe.Unknown, t.Err.Error()
	}
	if r.history.budget == 0 {
		status.Output, status.Error = short(status.Output), short(status.Error)
	} else if t.Outcome.Details != "" {
		status.Details = json.RawMessage(t.Outcome.Details)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && r.history.budget > 0 {
		r.keepLocked(*r.last)
	}
	r.last = &status
}

// keepLocked adds t to the past, and makes room for it: it removes the oldest successes first,
// then the oldest ticks.
func (r *record) keepLocked(t TickStatus) {
	t.Output, t.Error, t.Metrics, t.Details = short(t.Output), short(t.Error), nil, nil
	r.past = append(r.past, t)
	r.used += t.bytes()
	share := r.history.share()
	for len(r.past) > 0 && (r.used > share || len(r.past) >= historyLength) {
		i := max(slices.IndexFunc(r.past, func(t TickStatus) bool {
			return t.Result == probe.Success && t.Error == ""
		}), 0)
		r.used -= r.past[i].bytes()
		r.past = slices.Delete(r.past, i, i+1)
	}
}

// Skipped implements [worker.ProbeObserver].
func (r *record) Skipped(worker.SkipReason, int) {}

// Close implements [worker.ProbeObserver].
func (r *record) Close() {}

// ticks returns the last tick, nil if there was none, and the history, newest first.
func (r *record) ticks() (last *TickStatus, kept []TickStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return nil, nil
	}
	if r.history.budget > 0 {
		kept = append(slices.Clone(r.past), *r.last)
		slices.Reverse(kept)
		kept[0].Output, kept[0].Details = short(kept[0].Output), nil
	}
	return new(*r.last), kept
}

// short returns a copy of the beginning of s. A slice would keep all of s in memory.
func short(s string) string {
	if len(s) > historyOutput {
		return strings.Clone(s[:historyOutput])
	}
	return s
}
