package metrics_test

import (
	"context"
	"testing"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// twoPlugins is a host of plugins.
type twoPlugins struct{}

func (twoPlugins) Plugins() map[string]metrics.PluginStats {
	redis := metrics.PluginInfo{Version: "1.0.0", Digest: "sha256:12", Runtime: "wasm", Trust: "signed"}
	return map[string]metrics.PluginStats{
		"redis": {Loaded: redis, Idle: 2, Busy: 1, Denied: 7, Limits: map[string]uint64{"netRead": 3}}, "dns": {Refused: true},
	}
}

func (twoPlugins) Memory() uint64 { return 1 << 20 }

func TestPlugins(t *testing.T) {
	m, registry := setup(t)
	if err := m.RegisterPlugins(registry, twoPlugins{}); err != nil {
		t.Fatal(err)
	}
	h := m.TimeCalls("redis", probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Result: probe.Success}, nil
	}))
	for range 3 {
		if got, err := h.Probe(t.Context(), probe.Request{}); err != nil || got.Result != probe.Success {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	got := samples(t, registry, "prober_plugin_info", "prober_plugin_trust_info", "prober_plugin_last_reload_successful", "prober_plugin_instances", "prober_plugin_denied_total", "prober_plugin_memory_bytes", "prober_plugin_limit_hits_total")
	want := []string{
		"prober_plugin_denied_total{capability=net,plugin=dns} 0",
		"prober_plugin_denied_total{capability=net,plugin=redis} 7",
		"prober_plugin_info{digest=sha256:12,name=redis,runtime=wasm,version=1.0.0} 1",
		"prober_plugin_instances{plugin=dns,state=busy} 0",
		"prober_plugin_instances{plugin=dns,state=idle} 0",
		"prober_plugin_instances{plugin=redis,state=busy} 1",
		"prober_plugin_instances{plugin=redis,state=idle} 2",
		"prober_plugin_last_reload_successful{plugin=dns} 0",
		"prober_plugin_last_reload_successful{plugin=redis} 1",
		"prober_plugin_limit_hits_total{limit=netRead,plugin=redis} 3",
		"prober_plugin_memory_bytes{} 1.048576e+06",
		"prober_plugin_trust_info{plugin=redis,trust=signed} 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	calls := uint64(0)
	for _, f := range families {
		if f.GetName() == "prober_plugin_call_seconds" {
			calls = f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	if calls != 3 {
		t.Errorf("%d calls timed, want 3", calls)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestQuarantinedProbes(t *testing.T) {
	m, registry := setup(t)
	if err := m.RegisterPlugins(registry, twoPlugins{}); err != nil {
		t.Fatal(err)
	}
	info := web
	info.Handler = "redis"
	o := m.Observe(info)
	want := func(redis string) {
		t.Helper()
		want := []string{
			"prober_plugin_quarantined_probes{plugin=dns} 0", "prober_plugin_quarantined_probes{plugin=redis} " + redis,
		}
		if diff := cmp.Diff(want, samples(t, registry, "prober_plugin_quarantined_probes")); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	want("0")
	o.Skipped(worker.SkipQuarantine, 1)
	want("1")
	well := tick(probe.Success, results.Success)
	well.Handler = "redis"
	o.Tick(well)
	want("0")
	ill := *well
	ill.Quarantined = ill.End
	o.Tick(&ill)
	want("1")
	second := m.Observe(info) // another probe with the same labels
	second.Tick(&ill)
	want("2")
	second.Tick(well)
	want("1")
	second.Skipped(worker.SkipQuarantine, 1)
	o.Close()
	want("1")
	second.Close()
	want("0")
}
