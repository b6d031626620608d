package manager

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

const (
	historyLength    = 20  // ticks kept of one probe
	historyOutput    = 256 // bytes of output kept of a tick that is not the last
	historyItemBytes = 96  // about what a kept tick takes beside its texts
)

// history is the budget that the records of all probes share.
type history struct {
	budget int64
	probes atomic.Int64
}

func (h *history) newRecord() *record { return &record{history: h} }

// share is how many bytes of past ticks one probe may keep.
func (h *history) share() int64 { return h.budget / max(h.probes.Load(), 1) }

// TickStatus is a past tick as the API shows it.
type TickStatus struct {
	Result          probe.Result   `json:"result"`
	Output          string         `json:"output"`
	Error           string         `json:"error"`
	Attempts        int            `json:"attempts"`
	Time            time.Time      `json:"time"`
	DurationSeconds float64        `json:"durationSeconds"`
	Metrics         []probe.Metric `json:"metrics"` // of the last tick only
	// Details is what the handler has to tell programs: a JSON object. Of the last tick
	// only, and with a history only.
	Details json.RawMessage `json:"details,omitzero"`
}

// showMetrics makes no metrics an empty list rather than null.
func (t *TickStatus) showMetrics() {
	if t.Metrics == nil {
		t.Metrics = []probe.Metric{}
	}
}

func (t *TickStatus) bytes() int64 {
	return int64(historyItemBytes + len(t.Output) + len(t.Error))
}

// record is what is remembered of one probe's ticks.
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
		status.Result, status.Error = probe.Unknown, t.Err.Error() // no verdict, whatever the outcome says
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

// keepLocked adds t to the past and makes room for it: the oldest successes go
// first, then whatever is oldest.
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

// ticks returns the last tick, nil when there was none, and all that are kept, newest
// first.
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

// short returns the beginning of s. It is a copy: a slice would keep all of s alive.
func short(s string) string {
	if len(s) > historyOutput {
		return strings.Clone(s[:historyOutput])
	}
	return s
}
