package metrics

import (
	"github.com/daeace23/prober/metrics/internal/family"
	"github.com/prometheus/client_golang/prometheus"
)

// HandlerStats is the state of a handler whose attempts are limited, such as that of a limit of
// package handlers/limit.
type HandlerStats struct {
	InFlight    int    // attempts
	MaxInFlight int    // 0: any number
	Deferred    uint64 // attempts that have waited for a slot, so far
}

// RegisterHandlers registers the metrics of handlers whose attempts are limited. stats returns them
// by name, at each scrape. It must not block.
func RegisterHandlers(r prometheus.Registerer, stats func() map[string]HandlerStats) error {
	return r.Register(limitCollector(stats))
}

// limitCollector collects the metrics of limited handlers.
type limitCollector func() map[string]HandlerStats

var _ prometheus.Collector = limitCollector(nil)

// Describe implements [prometheus.Collector].
func (limitCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family.Described{handlerInflight, handlerLimit, attemptsDeferred} {
		ch <- f.Desc
	}
}

// Collect implements [prometheus.Collector].
func (c limitCollector) Collect(ch chan<- prometheus.Metric) {
	for name, s := range c() {
		ch <- handlerInflight.With(float64(s.InFlight), name)
		if s.MaxInFlight > 0 {
			ch <- handlerLimit.With(float64(s.MaxInFlight), name)
		}
		ch <- attemptsDeferred.With(float64(s.Deferred), name)
	}
}

// Actions are what users can ask an agent to do, and ActionResults the results.
var (
	Actions       = []string{"trigger", "pause", "resume", "promote", "reload", "test"}
	ActionResults = []string{"ok", "denied", "not_found", "error"}
)

// newActions returns counters with all their series: the rate of a series that appears with its
// first action would miss that action.
func newActions() *prometheus.CounterVec {
	actions := actionsTotal.CounterVec()
	for _, action := range Actions {
		for _, result := range ActionResults {
			actions.WithLabelValues(action, result)
		}
	}
	return actions
}

// Acted counts an action of [Actions], with a result of [ActionResults].
func (m *Metrics) Acted(action, result string) { m.actions.WithLabelValues(action, result).Inc() }
