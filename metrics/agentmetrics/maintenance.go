package agentmetrics

import "github.com/prometheus/client_golang/prometheus"

// RegisterMaintenance registers the gauge of maintenance windows. active is called at each scrape, and must not
// block. It returns by the names of windows whether they have begun and not ended.
func RegisterMaintenance(r prometheus.Registerer, active func() map[string]bool) error {
	return r.Register(maintenanceCollector(active))
}

// maintenanceCollector collects the gauge of maintenance windows.
type maintenanceCollector func() map[string]bool

var _ prometheus.Collector = maintenanceCollector(nil)

// Describe implements [prometheus.Collector].
func (maintenanceCollector) Describe(ch chan<- *prometheus.Desc) { ch <- maintenanceActive.Desc }

// Collect implements [prometheus.Collector].
func (c maintenanceCollector) Collect(ch chan<- prometheus.Metric) {
	for name, active := range c() {
		value := 0.0
		if active {
			value = 1
		}
		ch <- maintenanceActive.With(value, name)
	}
}
