package metrics_test

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/daeace23/prober/probe"
	dto "github.com/prometheus/client_model/go"
)

// shadowed is a host of one plugin with a shadow version.
type shadowed struct{ twoPlugins }

func (shadowed) Plugins() map[string]metrics.PluginStats {
	all := twoPlugins{}.Plugins()
	redis := all["redis"]
	redis.Shadow = map[string]uint64{"agree": 1, "disagree": 1, "error": 1, "skipped": 1}
	all["redis"] = redis
	return all
}

var reasons = []probe.Reason{
	probe.ReasonDNS, probe.ReasonConnectRefused, probe.ReasonConnectTimeout, probe.ReasonTLS,
	probe.ReasonHTTPStatus, probe.ReasonBody, probe.ReasonDeadline, probe.ReasonExecExit, probe.ReasonTrap,
	probe.ReasonMemory, probe.ReasonInstantiate, probe.ReasonDenied, probe.ReasonProtocol, probe.ReasonGuest,
	probe.ReasonHostStall, probe.ReasonHostResources, probe.ReasonHostNetwork, probe.ReasonDependency, probe.ReasonInternal,
}

// everything returns a scrape with every metric.
func everything(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	m, registry := setup(t)
	none := func() uint64 { return 0 }
	for _, err := range []error{
		m.RegisterPlugins(registry, shadowed{}),
		metrics.RegisterHandlers(registry, func() map[string]metrics.HandlerStats {
			return map[string]metrics.HandlerStats{"exec": {InFlight: 1, MaxInFlight: 2, Deferred: 3}, "http": {}}
		}),
		m.RegisterTargets(registry, func() metrics.Targets {
			return metrics.Targets{
				Probed: slices.Values([]metrics.Target{{Namespace: "targets", Pod: "web-h", Container: "target", Group: "web", Address: "h:1"}}),
				Sources: []metrics.TargetSource{{
					Group: "web", Source: "static", States: map[string]int{"probed": 1, "dropped": 2}, Failures: 3, Refreshed: time.Unix(4, 0),
				}},
			}
		}),
		metrics.RegisterPauses(registry, func() iter.Seq[worker.Info] { return slices.Values([]worker.Info{web}) }),
		metrics.RegisterMaintained(registry, func() iter.Seq[worker.Info] { return slices.Values([]worker.Info{web, web}) }),
		agentmetrics.RegisterSLOs(registry, func() []agentmetrics.SLO { return []agentmetrics.SLO{{Name: "shop", Objective: 0.999}} }),
		agentmetrics.RegisterMaintenance(registry, func() map[string]bool { return map[string]bool{"backup": true, "later": false} }),
		m.RegisterReload(registry, func() time.Duration { return 0 }),
		agentmetrics.RegisterOTLP(registry, agentmetrics.OTLPCounts{
			Metrics: agentmetrics.OTLPRequests{OK: none, Errors: none}, Traces: agentmetrics.OTLPRequests{OK: none, Errors: none}, SpansDropped: none,
		}),
		agentmetrics.RegisterNotifications(registry, func() map[string]agentmetrics.NotificationCounts {
			return map[string]agentmetrics.NotificationCounts{"ops": {OK: 1, Errors: 2, Refused: 3, Dropped: 4, Pending: 5, Open: 6}}
		}),
		agentmetrics.RegisterPushes(registry, func() map[string]agentmetrics.PushCounts {
			return map[string]agentmetrics.PushCounts{"backup": {Reports: map[string]uint64{"failure": 1}, LastReport: time.Unix(1, 0), Started: time.Unix(2, 0)}, "job": {}}
		}),
		agentmetrics.RegisterEndpoints(registry, func() iter.Seq[agentmetrics.EndpointCounts] {
			return slices.Values([]agentmetrics.EndpointCounts{{Namespace: "targets", Name: "shop", Checks: map[string]int{"success": 1, "failure": 2}}})
		}),
		agentmetrics.RegisterHistory(registry, agentmetrics.HistoryCounts{Bytes: func() int64 { return 1 }, Errors: none, Dropped: none}),
		agentmetrics.RegisterNode(registry, func() agentmetrics.NodeCounts { return agentmetrics.NodeCounts{} }),
		agentmetrics.RegisterAgent(registry, agentmetrics.AgentCounts{
			LogLinesDropped: map[string]func() uint64{"stdout": none, "stderr": none}, StateSaveFailures: none, ConnectionsClosed: none,
		}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range probe.Kinds {
		info := web
		info.Kind = kind
		o := m.Observe(info)
		for _, r := range []results.Result{results.Success, results.Failure, results.Unknown} {
			k := tick(probe.Success, r)
			k.Outcome.Reason = probe.ReasonBody
			k.Outcome.Metrics = []probe.Metric{{Name: "lag", Value: 1, Unit: "seconds"}}
			o.Tick(k)
		}
		o.Skipped(worker.SkipBusy, 1)
	}
	for _, kind := range []string{"liveness", "startup", "exit"} {
		m.Restarted(kind, "default", "shop", "web")
	}
	o := m.Observe(web)
	for _, reason := range append([]probe.Reason{""}, reasons...) {
		k := tick(probe.Failure, results.Failure)
		k.Outcome.Reason = reason
		o.Tick(k)
	}
	for gate := range slices.Values(worker.Gates()) {
		info := web
		info.Pod = gate.String()
		m.Observe(info).(worker.GateObserver).Gated(gate)
	}
	m.PodReady("default", "shop", "u1", true)
	m.PluginSources(map[string]bool{"redis": true})
	m.TimeCalls("redis", nil)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func TestFamiliesDescribeEveryMetricOfAScrape(t *testing.T) {
	known := make(map[string]metrics.Family)
	for _, f := range agentmetrics.Families() {
		known[f.Name] = f
	}
	scraped := make(map[string]bool)
	for _, got := range everything(t) {
		name := got.GetName()
		scraped[name] = true
		want, ok := known[name]
		if !ok {
			t.Errorf("%s is not in Families", name)
			continue
		}
		if kind := strings.ToLower(got.GetType().String()); kind != string(want.Type) || got.GetHelp() != want.Help {
			t.Errorf("%s: got %s %q, want %s %q", name, kind, got.GetHelp(), want.Type, want.Help)
		}
		for _, m := range got.Metric {
			checkLabels(t, name, want.Labels, m.Label)
		}
		if buckets := got.Metric[0].GetHistogram().GetBucket(); len(buckets) != len(want.Buckets) {
			t.Errorf("%s: %d buckets, want %d", name, len(buckets), len(want.Buckets))
		}
	}
	for name := range known {
		if !scraped[name] {
			t.Errorf("%s is in Families, and the scrape does not have it", name)
		}
	}
}

func checkLabels(t *testing.T, name string, want []metrics.Label, got []*dto.LabelPair) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got labels %v, want %v", name, got, want)
	}
	for _, pair := range got {
		at := slices.IndexFunc(want, func(l metrics.Label) bool { return l.Name == pair.GetName() })
		if at < 0 {
			t.Errorf("%s: unknown label %s", name, pair.GetName())
		} else if l := want[at]; l.Values != nil && !slices.Contains(l.Values, pair.GetValue()) {
			t.Errorf("%s: label %s is %q, which is not in %q", name, l.Name, pair.GetValue(), l.Values)
		}
	}
}
