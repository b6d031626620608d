package metrics

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/daeace23/prober/probe"
)

// maxPluginSeries is the largest number of plugin metrics kept of one tick.
const maxPluginSeries = 64

// label is a label of a series.
type label struct{ name, value string }

// measurement is a number that a handler measured, with the labels of its series.
type measurement struct {
	labels []label // by name
	value  float64
}

// measurements holds the measurements of one container. Its memory is reused for the next container.
type measurements struct {
	all    []measurement
	labels []label
}

// measurements yields the measurements of all probes, grouped by container. A measurement is valid until
// the next one is yielded.
func (x *index) measurements() iter.Seq[*measurement] {
	return func(yield func(*measurement) bool) {
		var m measurements
		for container := range x.containers() {
			m.read(container)
			for i := range m.all {
				if !yield(&m.all[i]) {
					return
				}
			}
		}
	}
}

// read replaces m by the measurements of a container, in client_golang's sort order. It keeps only the
// first of several measurements with the same labels, because duplicates make a scrape invalid.
func (m *measurements) read(container []*series) {
	m.all, m.labels = m.all[:0], m.labels[:0]
	for _, s := range container {
		measured, handler := s.measured(), s.handler.Load()
		for i := range measured[:min(len(measured), maxPluginSeries)] {
			metric := &measured[i]
			m.all = append(m.all, measurement{m.label(s, handler.handler, metric), metric.Value})
		}
	}
	if len(m.all) > 1 {
		slices.SortStableFunc(m.all, func(a, b measurement) int { return compareLabels(a.labels, b.labels) })
		m.all = slices.CompactFunc(m.all, func(a, b measurement) bool { return slices.Equal(a.labels, b.labels) })
	}
}

// label returns the labels of one measurement. It drops labels of the plugin that are invalid in
// Prometheus, or that have the name of one of prober's labels.
func (m *measurements) label(s *series, plugin string, metric *probe.Metric) []label {
	start := len(m.labels)
	m.labels = append(m.labels, // in the order of their names
		label{"container", s.subject.container}, label{"kind", s.kind().String()}, label{"metric", valid(metric.Name)},
		label{"namespace", s.subject.namespace}, label{"plugin", plugin}, label{"pod", s.subject.pod}, label{"unit", valid(metric.Unit)})
	for name, value := range metric.Labels {
		if validLabel(name) && !slices.ContainsFunc(pluginMetric.Labels, func(l Label) bool { return l.Name == name }) {
			m.labels = append(m.labels, label{name, valid(value)})
		}
	}
	labels := m.labels[start:len(m.labels):len(m.labels)]
	if len(labels) > len(pluginMetric.Labels) {
		slices.SortFunc(labels, func(a, b label) int { return cmp.Compare(a.name, b.name) })
	}
	return labels
}

// compareLabels orders labels as client_golang does, by their values. It compares the names where the
// values are equal, which client_golang leaves unordered.
func compareLabels(a, b []label) int {
	byValue := func(a, b label) int { return cmp.Compare(a.value, b.value) }
	byName := func(a, b label) int { return cmp.Compare(a.name, b.name) }
	return cmp.Or(cmp.Compare(len(a), len(b)), slices.CompareFunc(a, b, byValue), slices.CompareFunc(a, b, byName))
}

// validLabel reports whether name is a valid label name in every version of the Prometheus text format.
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
