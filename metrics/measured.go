package metrics

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/daeace23/prober/probe"
)

// maxPluginSeries is the largest number of metrics of one tick.
const maxPluginSeries = 64

// label is a label of a series.
type label struct{ name, value string }

// measurement is a number that a handler measured, with the labels of its series.
type measurement struct {
	labels []label // by name
	value  float64
}

// measurements are those of one container. Their memory is used again for the next one.
type measurements struct {
	all    []measurement
	labels []label
}

// measurements yields what the handlers of all probes measured, one container after another. A
// measurement is valid until the next one is yielded.
func (x *index) measurements() iter.Seq[*measurement] {
	return func(yield func(*measurement) bool) {
		var of measurements
		for container := range x.containers() {
			of.read(container)
			for i := range of.all {
				if !yield(&of.all[i]) {
					return
				}
			}
		}
	}
}

// read replaces m by the measurements of a container, sorted as client_golang sorts them. Of those
// with the same labels it keeps the first: others would make the scrape invalid.
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

// label returns the labels of one measured number. It drops labels of the plugin that have the
// name of one of ours, or that Prometheus does not accept.
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

// compareLabels has the order of client_golang, which looks at the values. The names decide where
// it has no order.
func compareLabels(a, b []label) int {
	byValue := func(a, b label) int { return cmp.Compare(a.value, b.value) }
	byName := func(a, b label) int { return cmp.Compare(a.name, b.name) }
	return cmp.Or(cmp.Compare(len(a), len(b)), slices.CompareFunc(a, b, byValue), slices.CompareFunc(a, b, byName))
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
