//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exported is a request as OpenTelemetry's collector has decoded it.
type exported struct {
	ResourceMetrics []struct {
		ScopeMetrics []struct{ Metrics []exportedMetric }
	}
	ResourceSpans []struct {
		ScopeSpans []struct{ Spans []exportedSpan }
	}
}

type exportedMetric struct {
	Name                                                 string
	Sum, Gauge, Histogram, ExponentialHistogram, Summary *struct{ DataPoints []exportedPoint }
}

// points returns the points of the metric, whatever its kind.
func (m *exportedMetric) points() []exportedPoint {
	for _, data := range []*struct{ DataPoints []exportedPoint }{m.Sum, m.Gauge, m.Histogram, m.ExponentialHistogram, m.Summary} {
		if data != nil {
			return data.DataPoints
		}
	}
	return nil
}

type exportedPoint struct {
	Attributes attributes
	AsDouble   float64
	Count      string
}

type exportedSpan struct {
	Name       string
	Attributes attributes
	Status     struct {
		Code    int
		Message string
	}
	Events []struct{ Name string }
}

type attributes []struct {
	Key   string
	Value struct{ StringValue string }
}

func (a attributes) get(key string) string {
	for _, kv := range a {
		if kv.Key == key {
			return kv.Value.StringValue
		}
	}
	return ""
}

// received returns the metrics and spans that a collector has written to a file so far.
func received(t *testing.T, path string) (all map[string]exportedMetric, spans []exportedSpan) {
	t.Helper()
	all = make(map[string]exportedMetric)
	for line := range strings.Lines(string(must(os.ReadFile(path)))) {
		var e exported
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, r := range e.ResourceMetrics {
			for _, s := range r.ScopeMetrics {
				for _, m := range s.Metrics {
					all[m.Name] = m
				}
			}
		}
		for _, r := range e.ResourceSpans {
			for _, s := range r.ScopeSpans {
				spans = append(spans, s.Spans...)
			}
		}
	}
	return all, spans
}

// TestOTLP exports an agent's metrics and spans to the receiver of OpenTelemetry's own collector.
func TestOTLP(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "collector")
	if out, err := exec.Command("go", "build", "-C", "collector", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	collector, away, path := freeAddress(t), freeAddress(t), filepath.Join(t.TempDir(), "requests")
	listening(t, collector, exec.Command(program, collector, path))
	for _, buckets := range []string{"native", "classic"} {
		t.Run(buckets, func(t *testing.T) {
			address := agent(t, "--metrics-buckets", buckets, "--config", file(t, "prober.yaml", fmt.Sprintf(`
apiVersion: prober.dev/v1
kind: AgentConfig
otlp: {endpoint: "http://%s", interval: 1s}
targets:
- {name: up-%[3]s, probe: {tcpSocket: {}, period: 300ms}, static: ["%[1]s"]}
- {name: away-%[3]s, probe: {tcpSocket: {}, period: 300ms, failureThreshold: 2}, static: ["%[2]s"]}
`, collector, away, buckets)))
			state := func(group, state string) float64 {
				all, _ := received(t, path)
				m := all["prober_probe_state"]
				for _, p := range m.points() {
					if strings.HasPrefix(p.Attributes.get("pod"), group) && p.Attributes.get("state") == state {
						return p.AsDouble
					}
				}
				return -1
			}
			await(t, "both states", func() bool { return state("up-"+buckets, "success") == 1 && state("away-"+buckets, "failure") == 1 })
			await(t, "the metrics of a scrape", func() bool {
				all, _ := received(t, path)
				return slices.Equal(slices.Sorted(maps.Keys(all)), scrapedFamilies(get(t, address, "/metrics")))
			})
			all, _ := received(t, path)
			if d := all["prober_probe_duration_seconds"]; (buckets == "native") != (d.ExponentialHistogram != nil) || (buckets == "classic") != (d.Histogram != nil) {
				t.Errorf("durations: %+v", d)
			}
			await(t, "the span of a refused connection", func() bool {
				_, spans := received(t, path)
				return slices.ContainsFunc(spans, func(s exportedSpan) bool {
					return s.Name == "probe readiness" && strings.HasPrefix(s.Attributes.get("k8s.pod.name"), "away-"+buckets) && s.Status.Code == 2 &&
						strings.Contains(s.Status.Message, "connection refused") && s.Attributes.get("error.type") == "connect_refused" && len(s.Events) > 0
				})
			})
		})
	}
}

// scrapedFamilies returns the names of all families of a scrape, sorted.
func scrapedFamilies(text string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return names
}
