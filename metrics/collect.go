package metrics

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daeace23/prober/probe"
)

// workerCollector collects everything that ticks count, except what handlers measured.
type workerCollector struct{ m *Metrics }

var _ prometheus.Collector = workerCollector{}

// Describe implements [prometheus.Collector].
func (c workerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family{
		probeTotal, probeDuration, outcomesTotal, attemptErrors, stateTransitions, scheduleLag, runsSkipped, workers, inflight,
	} {
		ch <- f.desc
	}
}

// Collect implements [prometheus.Collector]. It holds no lock while it waits for a slow reader.
func (c workerCollector) Collect(ch chan<- prometheus.Metric) {
	all, merged := c.m.snapshot()
	for _, s := range all {
		s.collectTotals(ch)
	}
	for _, s := range merged {
		s.collectDuration(ch)
	}
	for _, o := range c.m.allOutcomes() {
		o.collect(ch)
	}
	c.m.collectShared(ch)
}

// snapshot returns all series twice: as they are, and with those merged that differ only in the
// pod's UID.
func (m *Metrics) snapshot() (all, merged []*series) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all = make([]*series, 0, len(m.series))
	merged = make([]*series, 0, len(m.series))
	for _, first := range m.series {
		var group *series // of the same probe as s
		for s := first; s != nil; s = s.next {
			all = append(all, s)
			if group != nil && group.sameProbe(s.info()) {
				group.absorb(s)
				continue
			}
			group = s
			if s.next != nil { // a copy: absorb must not change s
				group = s.bare()
				group.absorb(s)
			}
			merged = append(merged, group)
		}
	}
	return all, merged
}

// resultWords are the kubelet's, by decided result.
var resultWords = [decidedResults]string{"unknown", "successful", "failed"}

func (s *series) collectTotals(ch chan<- prometheus.Metric) {
	for i := range s.totals {
		if n := s.totals[i].Load(); n > 0 {
			ch <- probeTotal.with(float64(n),
				s.kind.Title(), resultWords[i], s.container, s.pod, s.namespace, s.podUID)
		}
	}
}

func (s *series) collectDuration(ch chan<- prometheus.Metric) {
	count, buckets := cumulative(durationBounds[:], s.durations[:])
	if count == 0 {
		return
	}
	ch <- prometheus.MustNewConstHistogram(probeDuration.desc, count, time.Duration(s.durationSum.Load()).Seconds(), buckets,
		s.kind.Title(), s.container, s.pod, s.namespace)
}

// cumulative returns the counts of buckets as Prometheus has them.
func cumulative(bounds []time.Duration, counts []atomic.Uint32) (count uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(bounds))
	for i, b := range bounds {
		count += uint64(counts[i].Load())
		buckets[b.Seconds()] = count
	}
	return count + uint64(counts[len(bounds)].Load()), buckets
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

func (o *outcomes) collect(ch chan<- prometheus.Metric) {
	for r := range o.results {
		ch <- outcomesTotal.with(float64(o.results[r].Load()),
			o.handler, probe.Result(r).String())
	}
	for i := range o.reasons {
		if n := o.reasons[i].Load(); n > 0 {
			ch <- attemptErrors.with(float64(n), o.handler, string(reasons[i]))
		}
	}
}

func (m *Metrics) collectShared(ch chan<- prometheus.Metric) {
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
	count, buckets := cumulative(m.lag.bounds, m.lag.counts)
	ch <- prometheus.MustNewConstHistogram(scheduleLag.desc, count, time.Duration(m.lag.sum.Load()).Seconds(), buckets)
	ch <- workers.with(float64(m.workers.Load()))
	ch <- inflight.with(float64(m.inflight.Load()))
}

// maxPluginSeries is the largest number of metrics of one tick.
const maxPluginSeries = 64

// pluginCollector collects what handlers measured. Their labels are not known beforehand, so it
// is an unchecked collector, without descriptors.
type pluginCollector struct{ m *Metrics }

var _ prometheus.Collector = pluginCollector{}

// Describe implements [prometheus.Collector].
func (pluginCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c pluginCollector) Collect(ch chan<- prometheus.Metric) {
	all, _ := c.m.snapshot()
	seen := make(map[string]bool) // a duplicate would fail the whole scrape
	for _, s := range all {
		measured := s.measured.Load()
		if measured == nil {
			continue
		}
		for _, metric := range (*measured)[:min(len(*measured), maxPluginSeries)] {
			names, values := s.pluginLabels(metric)
			key := strings.Join(slices.Concat(names, values), "\xff")
			if seen[key] {
				continue
			}
			seen[key] = true
			desc := prometheus.NewDesc(pluginMetric.Name, pluginMetric.Help, names, nil)
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, metric.Value, values...)
		}
	}
}

// pluginLabels returns the labels of one measured number. It drops labels of the plugin that
// have the name of one of ours, or that Prometheus does not accept.
func (s *series) pluginLabels(metric probe.Metric) (names, values []string) {
	names = pluginMetric.labelNames()
	values = []string{s.handler.Load().handler, metric.Name, metric.Unit, s.kind.Title(), s.container, s.pod, s.namespace}
	ours := names
	for _, name := range slices.Sorted(maps.Keys(metric.Labels)) {
		if validLabel(name) && !slices.Contains(ours, name) {
			names, values = append(names, name), append(values, metric.Labels[name])
		}
	}
	for i := range values {
		values[i] = strings.ToValidUTF8(values[i], "\ufffd")
	}
	return names, values
}

// validLabel reports whether name is valid in every version of Prometheus' text format.
func validLabel(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && !strings.HasPrefix(name, "__")
}
