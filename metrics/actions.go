package metrics

import "github.com/prometheus/client_golang/prometheus"

// Actions are what users can ask an agent to do, and ActionResults what becomes of that.
var (
	Actions       = []string{"trigger", "pause", "resume", "promote", "reload"}
	ActionResults = []string{"ok", "denied", "not_found", "error"}
)

// newActions returns counters that are all there from the beginning: the rate of one that
// appears with its first action would miss that action.
func newActions() *prometheus.CounterVec {
	actions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "prober_actions_total", Help: "Actions that users asked the agent for, by what became of them: ok, denied, not_found or error.",
	}, []string{"action", "result"})
	for _, action := range Actions {
		for _, result := range ActionResults {
			actions.WithLabelValues(action, result)
		}
	}
	return actions
}

// Acted counts an action of [Actions], with a result of [ActionResults].
func (m *Metrics) Acted(action, result string) { m.actions.WithLabelValues(action, result).Inc() }
