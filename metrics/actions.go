package metrics

import "github.com/prometheus/client_golang/prometheus"

// Actions are what users can ask an agent to do, and ActionResults the results.
var (
	Actions       = []string{"trigger", "pause", "resume", "promote", "reload"}
	ActionResults = []string{"ok", "denied", "not_found", "error"}
)

// newActions returns counters with all their series: the rate of a series that appears with its
// first action would miss that action.
func newActions() *prometheus.CounterVec {
	actions := actionsTotal.counterVec()
	for _, action := range Actions {
		for _, result := range ActionResults {
			actions.WithLabelValues(action, result)
		}
	}
	return actions
}

// Acted counts an action of [Actions], with a result of [ActionResults].
func (m *Metrics) Acted(action, result string) { m.actions.WithLabelValues(action, result).Inc() }
