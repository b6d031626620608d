package metrics

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// decidedResults is how many decided results there are: unknown, success, failure,
// numbered from -1.
const decidedResults = 3

var decidedWords = [decidedResults]string{"unknown", "success", "failure"}

// durationBounds are Prometheus's default buckets, as the kubelet uses them.
var durationBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

var lagBounds = []time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 10 * time.Second,
}

var skipReasons = [...]worker.SkipReason{worker.SkipBusy, worker.SkipNoSlot, worker.SkipQuarantine, worker.SkipPanic}

// reasons is the closed list; anything else is counted as the last one.
var reasons = [...]probe.Reason{
	probe.ReasonDNS, probe.ReasonConnectRefused, probe.ReasonConnectTimeout, probe.ReasonTLS,
	probe.ReasonHTTPStatus, probe.ReasonBody, probe.ReasonDeadline, probe.ReasonExecExit, probe.ReasonTrap,
	probe.ReasonMemory, probe.ReasonInstantiate, probe.ReasonDenied, probe.ReasonProtocol, probe.ReasonGuest,
	probe.ReasonHostStall, probe.ReasonHostResources, probe.ReasonInternal,
}

// outcomes is what is counted for one handler.
type outcomes struct {
	handler string
	results [4]atomic.Uint64 // by [probe.Result]
	reasons [len(reasons)]atomic.Uint64
}

func (o *outcomes) count(t *worker.Tick) {
	if t.Err != nil {
		o.results[probe.Unknown].Add(1)
		o.reason(probe.ReasonOf(t.Err), t.Attempts)
		return
	}
	o.results[min(int(t.Outcome.Result), len(o.results)-1)].Add(1)
	if t.Outcome.Reason != "" {
		o.reason(t.Outcome.Reason, 1)
	}
}

func (o *outcomes) reason(r probe.Reason, attempts int) {
	i := slices.Index(reasons[:], r)
	if i < 0 {
		i = len(reasons) - 1
	}
	o.reasons[i].Add(uint64(attempts))
}

// histogram counts durations. The counts of its buckets are not cumulative.
type histogram struct {
	bounds []time.Duration
	counts []atomic.Uint32 // one more than bounds
	sum    atomic.Int64    // nanoseconds
}

func (h *histogram) observe(d time.Duration) {
	h.counts[bucket(h.bounds, d)].Add(1)
	h.sum.Add(int64(d))
}

// bucket returns the index of the first bound that is not below d.
func bucket(bounds []time.Duration, d time.Duration) int {
	for i, b := range bounds {
		if d <= b {
			return i
		}
	}
	return len(bounds)
}

// series is what is counted for one probe: the [worker.ProbeObserver] of its worker,
// or of several while one replaces another. Its size is most of the memory of a probe in this
// package, so counts have 32 bits: an overflow looks like a restart of the counter.
type series struct {
	metrics        *Metrics
	namespace, pod string
	podUID         string
	container      string
	handler        atomic.Pointer[outcomes]       // of the last tick's handler
	measured       atomic.Pointer[[]probe.Metric] // by the last tick that measured anything
	durationSum    atomic.Int64                   // nanoseconds
	durations      [len(durationBounds) + 1]atomic.Uint32
	totals         [decidedResults]atomic.Uint32 // by decided result
	kind           probe.Kind
	quarantined    atomic.Bool // since the last tick

	workers int32   // guarded by Metrics.mu
	next    *series // of the same hash; guarded by Metrics.mu
}

var _ worker.ProbeObserver = (*series)(nil)

func (s *series) sameProbe(info worker.Info) bool {
	return s.pod == info.Pod && s.container == info.Container && s.namespace == info.Namespace && s.kind == info.Kind
}

func (s *series) info() worker.Info {
	return worker.Info{
		Subject: results.Subject{Namespace: s.namespace, Pod: s.pod, PodUID: s.podUID, Container: s.container}, Kind: s.kind,
	}
}

// bare returns a series of the same probe with nothing counted.
func (s *series) bare() *series {
	return &series{namespace: s.namespace, pod: s.pod, podUID: s.podUID, container: s.container, kind: s.kind}
}

// unlink removes o, which comes after s, from the list.
func (s *series) unlink(o *series) {
	at := s
	for at.next != o {
		at = at.next
	}
	at.next = o.next
}

// Tick implements [worker.ProbeObserver].
func (s *series) Tick(t *worker.Tick) {
	s.metrics.lag.observe(max(t.Start.Sub(t.Due), 0))
	handler := s.handler.Load()
	if handler.handler != t.Handler {
		handler = s.metrics.outcomes(t.Handler)
		s.handler.Store(handler)
		s.measured.Store(nil) // by another handler
	}
	handler.count(t)
	s.quarantined.Store(!t.Quarantined.IsZero())
	if t.Changed() {
		s.metrics.transitions[s.kind][t.Before+1][t.After+1].Add(1)
	}
	if len(t.Outcome.Metrics) > 0 {
		measured := t.Outcome.Metrics
		s.measured.Store(&measured)
	}
	if t.Err != nil {
		return // the kubelet does not count errors
	}
	s.totals[t.Result+1].Add(1)
	if !failed(t) {
		s.observeDuration(t.End.Sub(t.Start))
	}
}

// failed reports whether t counted as a failure. The kubelet measures the duration of
// successes only.
func failed(t *worker.Tick) bool { return t.Result+1 == decidedResults-1 }

func (s *series) observeDuration(d time.Duration) {
	s.durations[bucket(durationBounds[:], d)].Add(1)
	s.durationSum.Add(int64(d))
}

// absorb adds the durations of o to those of s.
func (s *series) absorb(o *series) {
	for i := range s.durations {
		s.durations[i].Add(o.durations[i].Load())
	}
	s.durationSum.Add(o.durationSum.Load())
}

// Skipped implements [worker.ProbeObserver].
func (s *series) Skipped(reason worker.SkipReason, ticks int) {
	if reason == worker.SkipQuarantine {
		s.quarantined.Store(true)
	}
	if i := slices.Index(skipReasons[:], reason); i >= 0 {
		s.metrics.skipped[i].Add(uint64(ticks))
	}
}

// Close implements [worker.ProbeObserver].
func (s *series) Close() { s.metrics.release(s) }

func seconds(bounds []time.Duration) (all []float64) {
	for _, b := range bounds {
		all = append(all, b.Seconds())
	}
	return all
}
