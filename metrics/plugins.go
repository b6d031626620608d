package metrics

import (
	"context"
	"time"

	"github.com/daeace23/prober/metrics/internal/family"
	"github.com/daeace23/prober/probe"
	"github.com/prometheus/client_golang/prometheus"
)

// callBuckets range from the duration of a call of a small guest to a timeout of ten seconds.
var callBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1, 10}

// PluginStats is the state of a plugin at one moment, and its counts so far.
type PluginStats struct {
	Loaded     PluginInfo        // the running version; zero without one
	Refused    bool              // the newest version cannot be used
	Idle, Busy int               // instances
	Denied     uint64            // denied dials
	Limits     map[string]uint64 // hits by the name of the limit, which is one of a fixed list
	// Shadow counts ticks with a shadow version, by agreement: "agree", "disagree", "error" or "skipped".
	// It is nil without a shadow.
	Shadow map[string]uint64
}

// PluginInfo identifies the running version of a plugin.
type PluginInfo struct {
	Version, Digest string
	Runtime         string // "wasm", "process" or "nagios"
	// Trust is how the plugin was verified: "signed" with a trusted key, "unsigned", "unchecked" if no key
	// is trusted, or "dev".
	Trust string
}

// PluginHost returns the state of the loaded plugins. It is called at each scrape, and must not block.
type PluginHost interface {
	Plugins() map[string]PluginStats // by name
	Memory() uint64                  // bytes of all instances
}

// RegisterPlugins registers the metrics of the plugins of host.
func (m *Metrics) RegisterPlugins(r prometheus.Registerer, host PluginHost) error {
	return r.Register(hostCollector{m, host})
}

// hostCollector collects the metrics of plugins.
type hostCollector struct {
	m    *Metrics
	host PluginHost
}

var _ prometheus.Collector = hostCollector{}

// Describe implements [prometheus.Collector].
func (hostCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family.Described{pluginInfo, pluginTrust, pluginReload, pluginInstances, pluginDenied, pluginLimits, pluginQuarantined, pluginShadow, pluginMemory} {
		ch <- f.Desc
	}
}

// Collect implements [prometheus.Collector].
func (c hostCollector) Collect(ch chan<- prometheus.Metric) {
	resting := c.m.quarantined()
	for name, s := range c.host.Plugins() {
		collectLoaded(ch, name, &s)
		for limit, n := range s.Limits {
			ch <- pluginLimits.With(float64(n), name, limit)
		}
		for agreement, n := range s.Shadow {
			ch <- pluginShadow.With(float64(n), name, agreement)
		}
		ch <- pluginQuarantined.With(float64(resting[name]), name)
		ch <- pluginInstances.With(float64(s.Idle), name, "idle")
		ch <- pluginInstances.With(float64(s.Busy), name, "busy")
		ch <- pluginDenied.With(float64(s.Denied), name, "net")
	}
	ch <- pluginMemory.With(float64(c.host.Memory()))
}

// collectLoaded collects the metrics about the running version of a plugin.
func collectLoaded(ch chan<- prometheus.Metric, name string, s *PluginStats) {
	loaded := s.Loaded != (PluginInfo{})
	if loaded {
		ch <- pluginInfo.With(1, name, s.Loaded.Version, s.Loaded.Digest, s.Loaded.Runtime)
		ch <- pluginTrust.With(1, name, s.Loaded.Trust)
	}
	switch {
	case s.Refused:
		ch <- pluginReload.With(0, name)
	case loaded:
		ch <- pluginReload.With(1, name)
	}
}

// quarantined counts the probes in quarantine by handler.
func (m *Metrics) quarantined() map[string]int {
	counts := make(map[string]int)
	for _, o := range m.allOutcomes() {
		counts[o.handler] = int(o.quarantined.Load())
	}
	return counts
}

// TimeCalls returns h with its attempts timed. h is a probe of the plugin called name.
func (m *Metrics) TimeCalls(name string, h probe.Handler) probe.Handler {
	return &timed{h, m.calls.WithLabelValues(name)}
}

// timed is a handler whose attempts are timed.
type timed struct {
	inside probe.Handler
	took   prometheus.Observer
}

var _ probe.Wrapper = (*timed)(nil)

// Unwrap implements [probe.Wrapper].
func (t *timed) Unwrap() probe.Handler { return t.inside }

// Probe implements [probe.Handler].
func (t *timed) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	start := time.Now()
	defer func() { t.took.Observe(time.Since(start).Seconds()) }()
	return t.inside.Probe(ctx, req)
}
