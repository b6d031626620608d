package metrics

import (
	"github.com/daeace23/prober/metrics/internal/family"
	"github.com/prometheus/client_golang/prometheus"
)

// HandlerStats is the state of a handler with a limit of attempts in flight, as of package handlers/limit.
type HandlerStats struct {
	InFlight    int    // attempts
	MaxInFlight int    // 0: no limit
	Deferred    uint64 // attempts that have waited for a slot, so far
}

// RegisterHandlers registers the metrics of handlers with a limit of attempts. stats returns them by
// handler name. It is called at each scrape, and must not block.
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

// Actions are the actions that a user can request from an agent, and ActionResults their results.
var (
	Actions       = []string{"trigger", "pause", "force", "resume", "promote", "reload", "test", "maintain", "end_maintenance", "note"}
	ActionResults = []string{"ok", "denied", "not_found", "error"}
)

// newActions returns counters with all their series. A series that appeared with its first action would
// hide that action from rate().
func newActions() *prometheus.CounterVec {
	actions := actionsTotal.CounterVec()
	for _, action := range Actions {
		for _, result := range ActionResults {
			actions.WithLabelValues(action, result)
		}
	}
	return actions
}

// Acted counts an action. action is one of [Actions], and result one of [ActionResults].
func (m *Metrics) Acted(action, result string) { m.actions.WithLabelValues(action, result).Inc() }
