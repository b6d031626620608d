// Package family describes metrics, for scrapes and for docs/metrics.md.
package family

import "github.com/prometheus/client_golang/prometheus"

// Family describes one metric: its fields in a scrape, and the advice in docs/metrics.md.
type Family struct {
	Group   string // such as "Probes"
	Name    string
	Type    Type
	Unit    string // "" is a number without a unit
	Help    string // one sentence
	Labels  []Label
	Buckets []float64 // of a histogram, in Unit
	Alert   string    // when to alert, and why; "" without a known rule
}

// Type is a type of Prometheus metrics.
type Type string

// The types in use.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
	Summary   Type = "summary"
)

// Label is one label of a family.
type Label struct {
	Name   string
	Values []string // all possible values; nil if they are not known beforehand
	About  string   // describes values that are not known beforehand
}

// Described is a [Family] with its descriptor.
type Described struct {
	Family
	Desc *prometheus.Desc
}

// New returns a family with its descriptor.
func New(f Family) *Described {
	return &Described{f, prometheus.NewDesc(f.Name, f.Help, f.LabelNames(), nil)}
}

// LabelNames returns the names of the labels.
func (f *Family) LabelNames() (names []string) {
	for _, l := range f.Labels {
		names = append(names, l.Name)
	}
	return names
}

// With returns the current value of one series.
func (f *Described) With(value float64, labels ...string) prometheus.Metric {
	kind := prometheus.GaugeValue
	if f.Type == Counter {
		kind = prometheus.CounterValue
	}
	return prometheus.MustNewConstMetric(f.Desc, kind, value, labels...)
}

// CounterVec returns a new counter vector of the family.
func (f *Described) CounterVec() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: f.Help}, f.LabelNames())
}

// GaugeVec returns a new gauge vector of the family.
func (f *Described) GaugeVec() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.Name, Help: f.Help}, f.LabelNames())
}

// Gauge returns a new gauge of the family.
func (f *Described) Gauge() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: f.Name, Help: f.Help})
}

// Group returns the families of all, with their group set to name.
func Group(name string, all ...*Described) (families []Family) {
	for _, f := range all {
		made := f.Family
		made.Group = name
		families = append(families, made)
	}
	return families
}
