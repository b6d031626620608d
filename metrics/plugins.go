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
	pluginLimits = prometheus.NewDesc("prober_plugin_limit_hits_total",
		"Runs in which a plugin came to a limit, by limit; of calls and idle the instances.", []string{"plugin", "limit"}, nil)
	pluginQuarantined = prometheus.NewDesc("prober_plugin_quarantined_probes",
		"Probes of a plugin that rest since they could not be carried out several times running.", []string{"plugin"}, nil)
	pluginMemory = prometheus.NewDesc("prober_plugin_memory_bytes",
		"Memory of the instances of all plugins, snapshots included.", nil, nil)
)

var pluginShadow = prometheus.NewDesc("prober_plugin_shadow_total",
	"Ticks of a plugin beside which another version ran, by whether both said the same.", []string{"plugin", "agreement"}, nil)

// callBuckets reach from the call of a small guest to a timeout of ten seconds.
var callBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1, 10}

// PluginStats is what a plugin takes at one moment, and what it did so far.
type PluginStats struct {
	Idle, Busy int               // instances
	Denied     uint64            // dials
	Limits     map[string]uint64 // how often each limit was hit, by its name: one of a closed list
	// Shadow is how often another version that ran beside it agreed: "agree", "disagree",
	// "error" or "skipped". Nil when there was none.
	Shadow map[string]uint64
}

// PluginHost tells of the plugins that are loaded, at each scrape. It must not block.
type PluginHost interface {
	Plugins() map[string]PluginStats // by name
	Memory() uint64                  // bytes of all instances
}

// RegisterPlugins shows on r what host tells.
func (m *Metrics) RegisterPlugins(r prometheus.Registerer, host PluginHost) error {
	return r.Register(hostCollector{m, host})
}

// hostCollector tells what plugins take.
type hostCollector struct {
	m    *Metrics
	host PluginHost
}

var _ prometheus.Collector = hostCollector{}

// Describe implements [prometheus.Collector].
func (hostCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pluginInstances, pluginDenied, pluginLimits, pluginQuarantined, pluginShadow, pluginMemory} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c hostCollector) Collect(ch chan<- prometheus.Metric) {
	resting := c.m.quarantined()
	for name, s := range c.host.Plugins() {
		for limit, n := range s.Limits {
			ch <- prometheus.MustNewConstMetric(pluginLimits, prometheus.CounterValue, float64(n), name, limit)
		}
		for agreement, n := range s.Shadow {
			ch <- prometheus.MustNewConstMetric(pluginShadow, prometheus.CounterValue, float64(n), name, agreement)
		}
		ch <- prometheus.MustNewConstMetric(pluginQuarantined, prometheus.GaugeValue, float64(resting[name]), name)
		ch <- prometheus.MustNewConstMetric(pluginInstances, prometheus.GaugeValue, float64(s.Idle), name, "idle")
		ch <- prometheus.MustNewConstMetric(pluginInstances, prometheus.GaugeValue, float64(s.Busy), name, "busy")
		ch <- prometheus.MustNewConstMetric(pluginDenied, prometheus.CounterValue, float64(s.Denied), name, "net")
	}
	ch <- prometheus.MustNewConstMetric(pluginMemory, prometheus.GaugeValue, float64(c.host.Memory()))
}

// quarantined counts the probes in quarantine by handler.
func (m *Metrics) quarantined() map[string]int {
	counts := make(map[string]int)
	all, _ := m.snapshot()
	for _, s := range all {
		if s.quarantined.Load() {
			counts[s.handler.Load().handler]++
		}
	}
	return counts
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
