package metrics

import (
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics/internal/exposition"
	"github.com/daeace23/prober/metrics/internal/family"
	"github.com/daeace23/prober/metrics/internal/native"
	"github.com/daeace23/prober/probe"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// sharedCollector collects the counts that all probes share.
type sharedCollector struct{ m *Metrics }

var _ prometheus.Collector = sharedCollector{}

// Describe implements [prometheus.Collector].
func (c sharedCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family.Described{outcomesTotal, attemptErrors, attemptsRetried, stateTransitions, scheduleLag, runsSkipped, workers, probesGated, inflight} {
		ch <- f.Desc
	}
}

// Collect implements [prometheus.Collector]. It holds no lock while it waits for a slow reader.
func (c sharedCollector) Collect(ch chan<- prometheus.Metric) {
	m := c.m
	var lag lagHistogram
	for _, o := range m.allOutcomes() {
		o.collect(ch, &lag)
	}
	ch <- lag.metric()
	for kind := range m.transitions {
		for from := range decidedResults {
			for to := range decidedResults {
				if from != to {
					ch <- stateTransitions.With(float64(m.transitions[kind][from][to].Load()), probe.Kind(kind).String(), decidedWords[from], decidedWords[to])
				}
			}
		}
	}
	for i, reason := range skipReasons {
		ch <- runsSkipped.With(float64(m.skipped[i].Load()), string(reason))
	}
	m.gated.collect(ch)
	ch <- workers.With(float64(m.workers.Load()))
	ch <- inflight.With(float64(m.inflight.Load()))
}

func (m *Metrics) allOutcomes() []*outcomes {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := make([]*outcomes, 0, len(m.handlers))
	for _, o := range m.handlers {
		all = append(all, o)
	}
	return all
}

// collect collects the counts of one handler, and adds its schedule lags to lag.
func (o *outcomes) collect(ch chan<- prometheus.Metric, lag *lagHistogram) {
	var results [len(stripe{}.results)]uint64
	for i := range o.stripes {
		for r := range results {
			results[r] += o.stripes[i].results[r].Load()
		}
		lag.add(&o.stripes[i])
	}
	for r, n := range results {
		ch <- outcomesTotal.With(float64(n), o.handler, probe.Result(r).String())
	}
	ch <- attemptsRetried.With(float64(o.retried.Load()), o.handler)
	for i := range o.reasons {
		if n := o.reasons[i].Load(); n > 0 {
			ch <- attemptErrors.With(float64(n), o.handler, string(reasons[i]))
		}
	}
}

// probeCollector collects the counts of each probe, except measurements of plugins. It serves registries of
// other programs. [Metrics.Handler] needs less time and memory for the same metrics.
type probeCollector struct{ m *Metrics }

var _ prometheus.Collector = probeCollector{}

// Describe implements [prometheus.Collector].
func (c probeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family.Described{probeTotal, probeDuration, probeState, probeGate, probeFailures, podReady, targetInfo} {
		ch <- f.Desc
	}
}

// Collect implements [prometheus.Collector]. It holds no lock while it waits for a slow reader.
func (c probeCollector) Collect(ch chan<- prometheus.Metric) {
	d := newDurations(c.m.buckets)
	var failed failureSums
	for s := range c.m.series.all() {
		for result, word := range resultWords {
			if n := s.totals[result].Load(); n > 0 {
				ch <- probeTotal.With(float64(n), titles[s.kind()], word, s.subject.container, s.subject.pod, s.subject.namespace, s.subject.podUID)
			}
		}
	}
	c.collectStates(ch)
	for t := range c.m.probedTargets() {
		ch <- targetMetric(&t)
	}
	for p := range c.m.ready.allPods() {
		ch <- podReady.With(oneIf(p.ready), p.namespace, p.pod)
	}
	for s := range c.m.series.sums(&failed) {
		for _, reason := range sortedFailures {
			if n := failed[reason]; n > 0 {
				ch <- probeFailures.With(float64(n), s.subject.namespace, s.subject.pod, s.subject.container, s.kind().String(), failureReasons[reason])
			}
		}
	}
	for s := range c.m.series.sums(d) {
		labels := []string{titles[s.kind()], s.subject.container, s.subject.pod, s.subject.namespace}
		if c.m.buckets == NoBuckets {
			ch <- prometheus.MustNewConstSummary(probeDuration.Desc, d.count(), d.sum.Seconds(), nil, labels...)
			continue
		}
		ch <- newDurationMetric(d.exposed(), labels)
	}
}

// targetMetric returns prober_target_info of a target.
func targetMetric(t *Target) prometheus.Metric {
	values := []string{valid(t.Namespace), valid(t.Pod), valid(t.Container), valid(t.Group), valid(t.Address)}
	if len(t.Labels) == 0 {
		return targetInfo.With(1, values...)
	}
	names := targetInfo.LabelNames()
	for _, l := range t.Labels {
		names, values = append(names, l.Name), append(values, valid(l.Value))
	}
	return prometheus.MustNewConstMetric(prometheus.NewDesc(targetInfo.Name, targetInfo.Help, names, nil), prometheus.GaugeValue, 1, values...)
}

func (c probeCollector) collectStates(ch chan<- prometheus.Metric) {
	for s := range c.m.series.shown() {
		for state, value := range s.values {
			ch <- probeState.With(value, s.subject.namespace, s.subject.pod, s.subject.container, s.kind().String(), state)
		}
		if s.gate != worker.Open {
			ch <- probeGate.With(1, s.subject.namespace, s.subject.pod, s.subject.container, s.kind().String(), gateWord(s.gate))
		}
	}
}

// oneIf returns 1 if is is true, else 0.
func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// lagHistogram is the sum of the schedule lags of several stripes.
type lagHistogram struct {
	counts [len(lagBounds) + 1]uint64
	sum    time.Duration
}

func (h *lagHistogram) add(s *stripe) {
	for i := range h.counts {
		h.counts[i] += s.lags[i].Load()
	}
	h.sum += time.Duration(s.lagSum.Load())
}

func (h *lagHistogram) metric() prometheus.Metric {
	return histogram(scheduleLag, lagBounds[:], h.counts[:], h.sum)
}

// newDurationMetric returns a histogram with the buckets of d: classic, native or both. client_golang has
// no constant metric with both.
func newDurationMetric(d *exposition.Durations, labels []string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(d.Upto))
	for i, n := range d.Upto {
		buckets[durationBounds[i].Seconds()] = n
	}
	m := prometheus.MustNewConstHistogram(probeDuration.Desc, d.Count, d.Sum, buckets, labels...)
	if d.Native == nil {
		return m
	}
	spans, deltas := d.Native.Spans(nil, nil)
	return nativeMetric{m, d.Native.Zero, spans, deltas}
}

// nativeMetric is a histogram with native buckets in addition to the classic ones.
type nativeMetric struct {
	prometheus.Metric
	zero   uint64
	spans  []native.Span
	deltas []int64
}

// Write implements [prometheus.Metric].
func (m nativeMetric) Write(to *dto.Metric) error {
	if err := m.Metric.Write(to); err != nil {
		return err
	}
	h := to.Histogram
	h.Schema, h.ZeroThreshold, h.ZeroCount, h.PositiveDelta = new(int32(native.Schema)), new(native.ZeroThreshold), new(m.zero), m.deltas
	for _, s := range m.spans {
		h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: new(s.Offset), Length: new(s.Length)})
	}
	return nil
}

// histogram returns a Prometheus histogram of counts, which are not cumulative.
func histogram(f *family.Described, bounds []time.Duration, counts []uint64, sum time.Duration, labels ...string) prometheus.Metric {
	var count uint64
	buckets := make(map[float64]uint64, len(bounds))
	for i, n := range counts {
		count += n
		if i < len(bounds) {
			buckets[bounds[i].Seconds()] = count
		}
	}
	return prometheus.MustNewConstHistogram(f.Desc, count, sum.Seconds(), buckets, labels...)
}

// pluginCollector collects measurements of plugins. Their labels vary, so it is an unchecked collector,
// without descriptors.
type pluginCollector struct{ m *Metrics }

var _ prometheus.Collector = pluginCollector{}

// Describe implements [prometheus.Collector].
func (pluginCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c pluginCollector) Collect(ch chan<- prometheus.Metric) {
	for measured := range c.m.series.measurements() {
		names, values := make([]string, len(measured.labels)), make([]string, len(measured.labels))
		for i, l := range measured.labels {
			names[i], values[i] = l.name, l.value
		}
		desc := prometheus.NewDesc(pluginMetric.Name, pluginMetric.Help, names, nil)
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, measured.value, values...)
	}
}
