package metrics

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics/internal/exposition"
	"github.com/daeace23/prober/metrics/internal/native"
	"github.com/daeace23/prober/probe"
)

// decidedResults is the number of decided results: unknown, success and failure, numbered from -1.
const decidedResults = 3

var decidedWords = [decidedResults]string{"unknown", "success", "failure"}

// durationBounds are the default buckets of Prometheus, which the kubelet uses too.
var durationBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

var lagBounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 10 * time.Second,
}

var skipReasons = [...]worker.SkipReason{worker.SkipBusy, worker.SkipNoSlot, worker.SkipQuarantine, worker.SkipPanic}

// reasons is the closed list of reasons. An unlisted reason counts as the last one.
var reasons = [...]probe.Reason{
	probe.ReasonDNS, probe.ReasonConnectRefused, probe.ReasonConnectTimeout, probe.ReasonTLS,
	probe.ReasonHTTPStatus, probe.ReasonBody, probe.ReasonDeadline, probe.ReasonExecExit, probe.ReasonTrap,
	probe.ReasonMemory, probe.ReasonInstantiate, probe.ReasonUndecided, probe.ReasonDenied, probe.ReasonProtocol, probe.ReasonGuest,
	probe.ReasonHostStall, probe.ReasonHostResources, probe.ReasonHostNetwork,
	probe.ReasonDependency, probe.ReasonInternal,
}

// outcomes has the counts of one handler.
type outcomes struct {
	metrics     *Metrics
	handler     string
	stripes     [stripes]stripe
	reasons     [len(reasons)]atomic.Uint64
	retried     atomic.Uint64 // attempts
	quarantined atomic.Int64  // probes
}

// stripes is the number of copies of the counts to which every tick adds. Each series uses one copy, so
// processors seldom write to the same cache line.
const stripes = 8

type stripe struct {
	results [4]atomic.Uint64                  // by [probe.Result]
	lags    [len(lagBounds) + 1]atomic.Uint64 // not cumulative
	lagSum  atomic.Int64                      // nanoseconds
	_       [40]byte                          // padding to a full cache line
}

func (o *outcomes) count(t *worker.Tick, in *stripe) {
	lag := max(t.Start.Sub(t.Due), 0)
	in.lags[bucket(lagBounds[:], lag)].Add(1)
	in.lagSum.Add(int64(lag))
	if t.Err != nil {
		in.results[probe.Unknown].Add(1)
		o.reason(probe.ReasonOf(t.Err), t.Attempts)
		return
	}
	in.results[min(int(t.Outcome.Result), len(in.results)-1)].Add(1)
	if t.Attempts > 1 {
		o.retried.Add(uint64(t.Attempts - 1))
	}
	if t.Outcome.Reason != "" {
		o.reason(t.Outcome.Reason, 1)
	}
}

func (o *outcomes) reason(r probe.Reason, attempts int) {
	o.reasons[reasonIndex(r)].Add(uint64(attempts))
}

// reasonIndex returns the index of r in reasons.
func reasonIndex(r probe.Reason) int {
	if i := slices.Index(reasons[:], r); i >= 0 {
		return i
	}
	return len(reasons) - 1
}

// bucket returns the index of the first bound that is at least d.
func bucket(bounds []time.Duration, d time.Duration) int {
	for i, b := range bounds {
		if d <= b {
			return i
		}
	}
	return len(bounds)
}

// series has the counts of one probe. It is the [worker.ProbeObserver] of the probe's worker, or of the
// first worker if several have the same labels, for example while one replaces another. A series takes most
// of this package's memory for a probe: 96 bytes, a size class of the allocator. Counts have 32 bits to
// fit, so an overflow looks like a restart of the counter.
type series struct {
	subject     *subject
	handler     atomic.Pointer[outcomes] // of the last tick's handler
	rest        atomic.Pointer[rest]     // rarely used fields; nil if unused
	durationSum atomic.Int64             // nanoseconds
	durations   [len(durationBounds) + 1]atomic.Uint32
	totals      [decidedResults]atomic.Uint32 // by decided result
	state
}

// rest has the rarely used fields of a series.
type rest struct {
	measured    atomic.Pointer[[]probe.Metric] // by the last tick that measured anything
	quarantined *outcomes                      // of the handler that has quarantined the first worker; owned by that worker
	successors  int                            // open successors; guarded by index.mu
	begun       atomic.Bool                    // a successor has begun
	failures    failures
	native      native.Counts // of durations
}

// ensureRest returns the rest of s, and creates it if necessary.
func (s *series) ensureRest() *rest {
	if s.rest.Load() == nil {
		s.rest.CompareAndSwap(nil, new(rest))
	}
	return s.rest.Load()
}

// measured returns the metrics of the last tick that measured any.
func (s *series) measured() []probe.Metric {
	if r := s.rest.Load(); r != nil {
		if m := r.measured.Load(); m != nil {
			return *m
		}
	}
	return nil
}

var _ worker.GateObserver = (*series)(nil)

// Tick implements [worker.ProbeObserver].
func (s *series) Tick(t *worker.Tick) { s.quarantine(s.tick(t)) }

// tick counts t. It returns the outcomes of the handler that has quarantined the probe, nil if none has.
func (s *series) tick(t *worker.Tick) (quarantined *outcomes) {
	handler := s.handler.Load()
	if handler.handler != t.Handler {
		handler = handler.metrics.outcomes(t.Handler)
		s.handler.Store(handler)
		if r := s.rest.Load(); r != nil {
			r.measured.Store(nil) // measured by another handler
		}
	}
	handler.count(t, &handler.stripes[s.stripe()])
	s.ticked(t)
	if reason, failed := failureOf(t); failed {
		s.ensureRest().failures.add(reason, 1)
	}
	if !t.Quarantined.IsZero() {
		quarantined = handler
	}
	if t.Before != t.After {
		handler.metrics.transitions[s.kind()][t.Before][t.After].Add(1)
	}
	if len(t.Outcome.Metrics) > 0 {
		measured := t.Outcome.Metrics
		s.ensureRest().measured.Store(&measured)
	}
	if t.Err != nil {
		return quarantined // the kubelet does not count errors
	}
	s.totals[t.Result].Add(1)
	if !failed(t) {
		s.observeDuration(t.Duration(), handler.metrics.buckets)
	}
	return quarantined
}

// failed reports whether t counted as a failure. The kubelet measures the duration of
// successes only.
func failed(t *worker.Tick) bool { return t.Result == results.Failure }

// observeDuration counts d. See durations.add for the order.
func (s *series) observeDuration(d time.Duration, in Buckets) {
	if in.native() {
		s.ensureRest().native.Add(d)
	}
	if in != NativeBuckets {
		s.durations[bucket(durationBounds[:], d)].Add(1)
	}
	s.durationSum.Add(int64(d))
}

// quarantine is the function [quarantine] for the first worker.
func (s *series) quarantine(handler *outcomes) {
	if handler != nil || s.rest.Load() != nil {
		quarantine(&s.ensureRest().quarantined, handler)
	}
}

// quarantine counts a probe as quarantined by handler, or by none if it is nil. *counted is the handler
// that has counted the probe so far.
func quarantine(counted **outcomes, handler *outcomes) {
	if *counted == handler {
		return
	}
	if *counted != nil {
		(*counted).quarantined.Add(-1)
	}
	if handler != nil {
		handler.quarantined.Add(1)
	}
	*counted = handler
}

// Skipped implements [worker.ProbeObserver].
func (s *series) Skipped(reason worker.SkipReason, ticks int) {
	if reason == worker.SkipQuarantine {
		s.quarantine(s.handler.Load())
	}
	s.skipped(reason, ticks)
}

func (s *series) skipped(reason worker.SkipReason, ticks int) {
	s.change(func(bits uint64) uint64 {
		return ruleField.put(bits, uint64(states.Rule(ruleField.get(bits)).Skipped(reason, ticks)))
	})
	if i := slices.Index(skipReasons[:], reason); i >= 0 {
		s.metrics().skipped[i].Add(uint64(ticks))
	}
}

// Gated implements [worker.GateObserver].
func (s *series) Gated(gate worker.Gate) {
	s.passed(gate)
	s.gated(gate)
}

// gated moves the first worker to another gate's count.
func (s *series) gated(gate worker.Gate) {
	s.metrics().gated.move(s.kind(), worker.Gate(s.field(gateField)), gate)
	s.set(gateField, uint64(gate))
}

// Close implements [worker.ProbeObserver].
func (s *series) Close() {
	s.gated(worker.Open)
	s.quarantine(nil)
	s.metrics().release(s, true)
}

func (s *series) metrics() *Metrics { return s.handler.Load().metrics }

// successor observes a worker that has the same labels as an earlier worker. Both count in the same series,
// and each has its own gate and quarantine.
type successor struct {
	*series
	quarantined *outcomes
	gate        worker.Gate
	first       states.Rule // of this worker
	begun       bool        // the rule of the series is this worker's
}

// begin resets the rule of the series for s, which has decided nothing yet.
func (s *successor) begin() {
	if !s.begun {
		s.begun = true
		s.ensureRest().begun.Store(true)
		s.set(ruleField, uint64(s.first))
	}
}

var _ worker.GateObserver = (*successor)(nil)

// Tick implements [worker.ProbeObserver].
func (s *successor) Tick(t *worker.Tick) {
	s.begin()
	quarantine(&s.quarantined, s.tick(t))
}

// Skipped implements [worker.ProbeObserver].
func (s *successor) Skipped(reason worker.SkipReason, ticks int) {
	if reason == worker.SkipQuarantine {
		quarantine(&s.quarantined, s.handler.Load())
	}
	s.skipped(reason, ticks)
}

// Gated implements [worker.GateObserver].
func (s *successor) Gated(gate worker.Gate) {
	s.begin()
	s.passed(gate)
	s.gated(gate)
}

// gated moves the worker to another gate's count.
func (s *successor) gated(gate worker.Gate) {
	s.metrics().gated.move(s.kind(), s.gate, gate)
	s.gate = gate
}

// Close implements [worker.ProbeObserver].
func (s *successor) Close() {
	s.gated(worker.Open)
	quarantine(&s.quarantined, nil)
	s.metrics().release(s.series, false)
}

// absorb adds the durations and the failures of o to s.
func (s *series) absorb(o *series) {
	for i := range s.durations {
		s.durations[i].Add(o.durations[i].Load())
	}
	s.durationSum.Add(o.durationSum.Load())
	if r := o.rest.Load(); r != nil {
		r.failures.addTo(s)
		if s.metrics().buckets.native() {
			s.ensureRest().native.AddAll(&r.native)
		}
	}
}

// resultWords are the kubelet's words for decided results.
var resultWords = [decidedResults]string{"unknown", "successful", "failed"}

// sortedResults are the indexes of resultWords in alphabetical order.
var sortedResults = [decidedResults]int{2, 1, 0}

// titles are the values of the label probe_type, by kind.
var titles = [len(probe.Kinds)]string{probe.Liveness.Title(), probe.Readiness.Title(), probe.Startup.Title()}

// durations sums the durations of series with the same labels. Its memory is reused for the next probe.
type durations struct {
	classic bool
	buckets [len(durationBounds) + 1]uint64 // not cumulative
	upto    [len(durationBounds)]uint64     // cumulative
	native  *native.Sum                     // nil for none
	sum     time.Duration
	shown   exposition.Durations
}

var _ sum = (*durations)(nil)

func newDurations(b Buckets) *durations {
	d := &durations{classic: b != NativeBuckets}
	if b.native() {
		d.native = new(native.Sum)
	}
	return d
}

func (d *durations) reset() {
	d.buckets, d.sum = [len(d.buckets)]uint64{}, 0
	if d.native != nil {
		d.native.Reset()
	}
}

func (d *durations) isSet() bool { return d.count() > 0 }

// add adds the durations of s. It reads the classic buckets before the native ones. A tick adds to them in
// the opposite order, so the total of the classic buckets never exceeds the count.
func (d *durations) add(s *series) {
	if d.classic {
		for i := range d.buckets {
			d.buckets[i] += uint64(s.durations[i].Load())
		}
	}
	d.sum += time.Duration(s.durationSum.Load())
	if r := s.rest.Load(); d.native != nil && r != nil {
		d.native.Add(&r.native)
	}
}

// count returns the number of durations. With native buckets it is their total, because they must add up to
// it.
func (d *durations) count() (n uint64) {
	if d.native != nil {
		return d.native.Count()
	}
	for _, b := range d.buckets {
		n += b
	}
	return n
}

// exposed returns the durations for a scrape. They are valid until the next reset.
func (d *durations) exposed() *exposition.Durations {
	d.shown = exposition.Durations{Count: d.count(), Sum: d.sum.Seconds(), Native: d.native}
	if d.classic {
		var n uint64
		for i := range d.upto {
			n += d.buckets[i]
			d.upto[i] = n
		}
		d.shown.Upto = d.upto[:]
	}
	return &d.shown
}

func seconds(bounds []time.Duration) (all []float64) {
	for _, b := range bounds {
		all = append(all, b.Seconds())
	}
	return all
}
