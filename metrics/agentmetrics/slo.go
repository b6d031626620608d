package agentmetrics

import (
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/metrics/internal/family"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	sloLabel     = metrics.Label{Name: "slo", About: "name of the objective in prober.yaml"}
	sloObjective = family.New(metrics.Family{
		Name: "prober_slo_objective_ratio", Type: metrics.Gauge,
		Help: "Objective of `slo` in prober.yaml: the fraction of the measured time that shall be good.", Labels: []metrics.Label{sloLabel},
	})
	sloGood = family.New(metrics.Family{
		Name: "prober_slo_good_seconds_total", Type: metrics.Counter, Unit: "seconds",
		Help:   "Time of the probes of an objective in the states success and warning, all probes together. Reports count the same time as uptime.",
		Labels: []metrics.Label{sloLabel},
	})
	sloBad = family.New(metrics.Family{
		Name: "prober_slo_bad_seconds_total", Type: metrics.Counter, Unit: "seconds",
		Help: "Time of the probes of an objective in the state failure, all probes together.", Labels: []metrics.Label{sloLabel},
		Alert: "It grows faster than the objective allows: see the alerts ProberSLOBurnsFast and ProberSLOBurnsSlowly.",
	})
)

// SLO has the values of an objective.
type SLO struct {
	Name      string
	Objective float64 // from 0 to 1
	Good, Bad float64 // seconds since the agent knows the objective
}

// RegisterSLOs registers the metrics of objectives. slos is called at each scrape, and must not block.
func RegisterSLOs(r prometheus.Registerer, slos func() []SLO) error {
	return r.Register(sloCollector(slos))
}

// sloCollector collects the metrics of objectives.
type sloCollector func() []SLO

var _ prometheus.Collector = sloCollector(nil)

// Describe implements [prometheus.Collector].
func (sloCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family.Described{sloObjective, sloGood, sloBad} {
		ch <- f.Desc
	}
}

// Collect implements [prometheus.Collector].
func (c sloCollector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c() {
		ch <- sloObjective.With(s.Objective, s.Name)
		ch <- sloGood.With(s.Good, s.Name)
		ch <- sloBad.With(s.Bad, s.Name)
	}
}
