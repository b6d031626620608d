package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daeace23/prober/probe"
)

var (
	pluginInfo = prometheus.NewDesc("prober_plugin_info",
		"1 for each plugin that is loaded; its labels say which.", []string{"name", "version", "digest", "runtime"}, nil)
	pluginTrust = prometheus.NewDesc("prober_plugin_trust_info",
		"1 for each plugin that is loaded; trust says who vouches for it.", []string{"plugin", "trust"}, nil)
	pluginReload = prometheus.NewDesc("prober_plugin_last_reload_successful",
		"Whether the newest version of a plugin could be used; with 0 an older one goes on, if there is one.", []string{"plugin"}, nil)
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

// PluginStats is what a plugin is and takes at one moment, and what it did so far.
type PluginStats struct {
	Loaded     PluginInfo        // what runs; zero where nothing does
	Refused    bool              // the newest version cannot be used
	Idle, Busy int               // instances
	Denied     uint64            // dials
	Limits     map[string]uint64 // how often each limit was hit, by its name: one of a closed list
	// Shadow is how often another version that ran beside it agreed: "agree", "disagree",
	// "error" or "skipped". Nil when there was none.
	Shadow map[string]uint64
}

// PluginInfo says which version of a plugin runs.
type PluginInfo struct {
	Version, Digest string
	Runtime         string // "wasm", "process" or "nagios"
	// Trust is what vouches for it: "signed" by a key that is trusted, "unsigned",
	// "unchecked" where no key is trusted, or "dev".
	Trust string
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
	for _, d := range []*prometheus.Desc{pluginInfo, pluginTrust, pluginReload, pluginInstances, pluginDenied, pluginLimits, pluginQuarantined, pluginShadow, pluginMemory} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c hostCollector) Collect(ch chan<- prometheus.Metric) {
	resting := c.m.quarantined()
	for name, s := range c.host.Plugins() {
		collectLoaded(ch, name, &s)
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

// collectLoaded tells which version of a plugin runs.
func collectLoaded(ch chan<- prometheus.Metric, name string, s *PluginStats) {
	loaded := s.Loaded != (PluginInfo{})
	if loaded {
		ch <- prometheus.MustNewConstMetric(pluginInfo, prometheus.GaugeValue, 1, name, s.Loaded.Version, s.Loaded.Digest, s.Loaded.Runtime)
		ch <- prometheus.MustNewConstMetric(pluginTrust, prometheus.GaugeValue, 1, name, s.Loaded.Trust)
	}
	switch {
	case s.Refused:
		ch <- prometheus.MustNewConstMetric(pluginReload, prometheus.GaugeValue, 0, name)
	case loaded:
		ch <- prometheus.MustNewConstMetric(pluginReload, prometheus.GaugeValue, 1, name)
	}
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
