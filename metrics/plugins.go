package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daeace23/prober/probe"
)

var (
	pluginInstances = prometheus.NewDesc("prober_plugin_instances",
		"Instances of a plugin, by whether they are idle or busy.", []string{"plugin", "state"}, nil)
	pluginDenied = prometheus.NewDesc("prober_plugin_denied_total",
		"What a plugin wanted to do and was not granted, by capability.", []string{"plugin", "capability"}, nil)
	pluginMemory = prometheus.NewDesc("prober_plugin_memory_bytes",
		"Memory of the instances of all plugins, snapshots included.", nil, nil)
)

// callBuckets reach from the call of a small guest to a timeout of ten seconds.
var callBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1, 10}

// PluginStats is what a plugin takes at one moment, and what it did so far.
type PluginStats struct {
	Idle, Busy int    // instances
	Denied     uint64 // dials
}

// PluginHost tells of the plugins that are loaded, at each scrape. It must not block.
type PluginHost interface {
	Plugins() map[string]PluginStats // by name
	Memory() uint64                  // bytes of all instances
}

// RegisterPlugins shows on r what host tells.
func (m *Metrics) RegisterPlugins(r prometheus.Registerer, host PluginHost) error {
	return r.Register(hostCollector{host})
}

// hostCollector tells what plugins take.
type hostCollector struct{ host PluginHost }

var _ prometheus.Collector = hostCollector{}

// Describe implements [prometheus.Collector].
func (hostCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pluginInstances, pluginDenied, pluginMemory} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c hostCollector) Collect(ch chan<- prometheus.Metric) {
	for name, s := range c.host.Plugins() {
		ch <- prometheus.MustNewConstMetric(pluginInstances, prometheus.GaugeValue, float64(s.Idle), name, "idle")
		ch <- prometheus.MustNewConstMetric(pluginInstances, prometheus.GaugeValue, float64(s.Busy), name, "busy")
		ch <- prometheus.MustNewConstMetric(pluginDenied, prometheus.CounterValue, float64(s.Denied), name, "net")
	}
	ch <- prometheus.MustNewConstMetric(pluginMemory, prometheus.GaugeValue, float64(c.host.Memory()))
}

// TimeCalls returns h, a probe of the plugin called name, with its attempts timed.
func (m *Metrics) TimeCalls(name string, h probe.Handler) probe.Handler {
	took := m.calls.WithLabelValues(name)
	return probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
		start := time.Now()
		defer func() { took.Observe(time.Since(start).Seconds()) }()
		return h.Probe(ctx, req)
	})
}
