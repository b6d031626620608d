package metrics

import (
	"iter"
	"time"

	"github.com/daeace23/prober/metrics/internal/family"
	"github.com/prometheus/client_golang/prometheus"
)

// Target is a target of prober.yaml that is probed.
type Target struct {
	Namespace, Pod, Container, Group, Address string

	Labels []TargetLabel // chosen ones, sorted by name
}

// TargetLabel is a label of prober_target_info that the user has chosen. Name is a valid name of a label, and begins
// with "label_".
type TargetLabel struct{ Name, Value string }

// TargetSource is a source of targets with its counts.
type TargetSource struct {
	Group, Source string
	States        map[string]int // by the name of the state
	Failures      uint64         // failed refreshes
	Refreshed     time.Time      // last success; zero if none
}

// Targets has the targets of an agent at one moment.
type Targets struct {
	Probed  iter.Seq[Target] // each pod once
	Sources []TargetSource   // each group and source once
}

// RegisterTargets registers the metrics of the sources of targets. prober_target_info belongs to the
// metrics with series for each probe: see [Metrics.RegisterShared]. read is called twice at each scrape,
// and must not block.
func (m *Metrics) RegisterTargets(r prometheus.Registerer, read func() Targets) error {
	m.targets.Store(&read)
	return r.Register(targetCollector(read))
}

// probedTargets yields the targets that are probed.
func (m *Metrics) probedTargets() iter.Seq[Target] {
	read := m.targets.Load()
	if read == nil {
		return func(func(Target) bool) {}
	}
	return (*read)().Probed
}

// targetCollector collects the metrics of sources.
type targetCollector func() Targets

var _ prometheus.Collector = targetCollector(nil)

// Describe implements [prometheus.Collector].
func (targetCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family.Described{targetCount, targetFailures, targetRefreshed} {
		ch <- f.Desc
	}
}

// Collect implements [prometheus.Collector].
func (c targetCollector) Collect(ch chan<- prometheus.Metric) {
	all := c()
	for _, s := range all.Sources {
		for state, n := range s.States {
			ch <- targetCount.With(float64(n), s.Group, s.Source, state)
		}
		ch <- targetFailures.With(float64(s.Failures), s.Group, s.Source)
		if !s.Refreshed.IsZero() {
			ch <- targetRefreshed.With(float64(s.Refreshed.UnixMilli())/1000, s.Group, s.Source)
		}
	}
}
