package blackbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daeace23/prober/probe"
)

// gather registers the metrics of a scrape. Metrics of a handler get the prefix probe_, as in
// blackbox_exporter. Of metrics that cannot be exported together, it exports the first.
func gather(registry *prometheus.Registry, v *verdict) {
	add := func(name, help string, value float64) {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		g.Set(value)
		_ = registry.Register(g)
	}
	add("probe_success", "Displays whether or not the probe was a success", flag(v.success()))
	add("probe_duration_seconds", "Returns how long the probe took to complete in seconds", v.took.Seconds())
	add("probe_warning", "1 if the probe succeeded with a warning.", flag(v.outcome.Result == probe.Warning))
	add("probe_unknown", "1 if the probe could not decide.", flag(v.outcome.Result == probe.Unknown))
	vectors := make(map[string]*prometheus.GaugeVec)
	for _, m := range v.outcome.Metrics {
		name, labels := "probe_"+m.Name, slices.Sorted(maps.Keys(m.Labels))
		vec := vectors[name]
		if vec == nil {
			vec = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help(&m)}, labels)
			if registry.Register(vec) != nil {
				continue
			}
			vectors[name] = vec
		}
		if g, err := vec.GetMetricWith(m.Labels); err == nil {
			g.Set(m.Value)
		}
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func help(m *probe.Metric) string {
	if m.Unit != "" {
		return "Measured by the probe, in " + m.Unit + "."
	}
	return "Measured by the probe."
}

// mask returns a copy of v, a value in a config, without secrets. within is the name of the field that has v.
func mask(within string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		made := make(map[string]any, len(v))
		for name, value := range v {
			if _, text := value.(string); text && isSecret(within, name) {
				made[name] = hidden
			} else {
				made[name] = mask(name, value)
			}
		}
		return made
	case []any:
		made := make([]any, len(v))
		for i := range v {
			made[i] = mask(within, v[i])
		}
		return made
	default:
		return v
	}
}

// hidden replaces a secret.
const hidden = "<secret>"

// isSecret reports whether a field is a secret. What is sent to a target may have credentials anywhere.
func isSecret(within, name string) bool {
	switch within {
	case "headers":
		return sensitive(name)
	case "proxyConnectHeader":
		return true
	default:
		return slices.Contains([]string{"password", "bearerToken", "credentials", "proxyUrl", "send", "body"}, name)
	}
}

// line formats an event of an attempt as a line of the debug text.
func line(e *probe.TraceEvent) string {
	text := fmt.Sprintf("%-6s  %-12s", e.Type, e.Name)
	if e.Type != probe.TraceLog {
		text += "  " + e.Duration.String()
	}
	return strings.TrimRight(text+"  "+e.Detail, " ")
}
