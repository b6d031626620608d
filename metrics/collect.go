package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daeace23/prober/probe"
)

// sharedCollector collects what ticks count for all probes together.
type sharedCollector struct{ m *Metrics }

var _ prometheus.Collector = sharedCollector{}

// Describe implements [prometheus.Collector].
func (c sharedCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family{outcomesTotal, attemptErrors, attemptsRetried, stateTransitions, scheduleLag, runsSkipped, workers, probesGated, inflight} {
		ch <- f.desc
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
					ch <- stateTransitions.with(float64(m.transitions[kind][from][to].Load()), probe.Kind(kind).String(), decidedWords[from], decidedWords[to])
				}
			}
		}
	}
	for i, reason := range skipReasons {
		ch <- runsSkipped.with(float64(m.skipped[i].Load()), string(reason))
	}
	m.gated.collect(ch)
	ch <- workers.with(float64(m.workers.Load()))
	ch <- inflight.with(float64(m.inflight.Load()))
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

// collect collects what is counted for one handler, and adds its schedule lags to lag.
func (o *outcomes) collect(ch chan<- prometheus.Metric, lag *lagHistogram) {
	var results [len(stripe{}.results)]uint64
	for i := range o.stripes {
		for r := range results {
			results[r] += o.stripes[i].results[r].Load()
		}
		lag.add(&o.stripes[i])
	}
	for r, n := range results {
		ch <- outcomesTotal.with(float64(n), o.handler, probe.Result(r).String())
	}
	ch <- attemptsRetried.with(float64(o.retried.Load()), o.handler)
	for i := range o.reasons {
		if n := o.reasons[i].Load(); n > 0 {
			ch <- attemptErrors.with(float64(n), o.handler, string(reasons[i]))
		}
	}
}

// probeCollector collects what ticks count for each probe, except what handlers measured. It is
// for registries of other programs: [Metrics.Handler] needs less time and memory for the same.
type probeCollector struct{ m *Metrics }

var _ prometheus.Collector = probeCollector{}

// Describe implements [prometheus.Collector].
func (c probeCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- probeTotal.desc
	ch <- probeDuration.desc
}

// Collect implements [prometheus.Collector]. It holds no lock while it waits for a slow reader.
func (c probeCollector) Collect(ch chan<- prometheus.Metric) {
	for s := range c.m.series.all() {
		for result, word := range resultWords {
			if n := s.totals[result].Load(); n > 0 {
				ch <- probeTotal.with(float64(n), titles[s.kind], word, s.subject.container, s.subject.pod, s.subject.namespace, s.subject.podUID)
			}
		}
	}
	for s, d := range c.m.series.durations() {
		labels := []string{titles[s.kind], s.subject.container, s.subject.pod, s.subject.namespace}
		if c.m.buckets == NoBuckets {
			ch <- prometheus.MustNewConstSummary(probeDuration.desc, d.count(), d.sum.Seconds(), nil, labels...)
			continue
		}
		ch <- histogram(probeDuration, durationBounds[:], d.buckets[:], d.sum, labels...)
	}
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

// histogram returns counts, which are not cumulative, as Prometheus has them.
func histogram(f *family, bounds []time.Duration, counts []uint64, sum time.Duration, labels ...string) prometheus.Metric {
	var count uint64
	buckets := make(map[float64]uint64, len(bounds))
	for i, n := range counts {
		count += n
		if i < len(bounds) {
			buckets[bounds[i].Seconds()] = count
		}
	}
	return prometheus.MustNewConstHistogram(f.desc, count, sum.Seconds(), buckets, labels...)
}

// pluginCollector collects what handlers measured. Their labels are not known beforehand, so it
// is an unchecked collector, without descriptors.
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
