package config_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/config"
)

func TestKubernetes(t *testing.T) {
	got, err := config.Parse("f", []byte(head+`kubernetes:
  liveness: {modes: [observe, restart], onFailure: kill}
  budgets: {workload: {burst: 1}, node: {every: 2m}, backoff: 20s}
  breaker: {share: 0.25, least: 3, window: 1m, lag: 500ms, pressure: {cpu: 95.5}}
  podNetwork: true
  apiExec: true
  targets: [10.0.0.0/8, 192.0.2.7, "2001:db8::/32", DB.Example.]
  minPeriod: 1s
  maxRate: 50
  conditions: {qps: 5}
  dryRun: true
`))
	if err != nil {
		t.Fatal(err)
	}
	want := config.DefaultKubernetes()
	want.Liveness = config.Liveness{Modes: []string{"observe", "restart"}, OnFailure: "kill"}
	want.Budgets = config.Budgets{
		Workload: config.Budget{Burst: 1, Every: 10 * time.Minute}, Node: config.Budget{Burst: 10, Every: 2 * time.Minute}, Backoff: 20 * time.Second,
	}
	want.Breaker = config.Breaker{
		Share: 0.25, Least: 3, Window: time.Minute, Lag: 500 * time.Millisecond,
		Pressure: map[string]float64{"cpu": 95.5, "memory": 40, "io": 60},
	}
	want.PodNetwork, want.APIExec, want.MinPeriod, want.MaxRate, want.QPS, want.DryRun = true, true, time.Second, 50, 5, true
	want.Targets = []config.Target{
		{Prefix: netip.MustParsePrefix("10.0.0.0/8")}, {Prefix: netip.MustParsePrefix("192.0.2.7/32")},
		{Prefix: netip.MustParsePrefix("2001:db8::/32")}, {Host: "db.example"},
	}
	if diff := cmp.Diff(want, got.Kubernetes, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestKubernetesDefaults(t *testing.T) {
	got, err := config.Parse("f", []byte(head+"kubernetes: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.DefaultKubernetes(), got.Kubernetes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestKubernetesErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown field", "kubernetes: {mode: observe}\n", `f:3: kubernetes.mode: unknown field; known: apiExec, breaker, budgets, conditions, dryRun, liveness, maxRate, minPeriod, namespaceLabels, podNetwork, targets`},
		{"unknown mode", "kubernetes:\n  liveness: {modes: [observe, reboot]}\n", `f:4: kubernetes.liveness.modes[1]: unknown value "reboot"; known: evict, observe, restart, sidecar`},
		{"no observe", "kubernetes:\n  liveness: {modes: [restart]}\n", `f:4: kubernetes.liveness.modes: must contain observe, the default mode of pods`},
		{"on failure", "kubernetes:\n  liveness: {onFailure: stop}\n", `f:4: kubernetes.liveness.onFailure: unknown value "stop"; known: kill, refuse`},
		{"burst", "kubernetes:\n  budgets: {node: {burst: 0}}\n", `f:4: kubernetes.budgets.node.burst: must be at least 1`},
		{"every", "kubernetes:\n  budgets: {workload: {every: 0s}}\n", `f:4: kubernetes.budgets.workload.every: must be from 1s to 24h0m0s`},
		{"backoff", "kubernetes:\n  budgets: {backoff: 1h}\n", `f:4: kubernetes.budgets.backoff: must be from 1s to 5m0s`},
		{"share", "kubernetes:\n  breaker: {share: 50}\n", `f:4: kubernetes.breaker.share: must be a number above 0 and at most 1`},
		{"pressure", "kubernetes:\n  breaker: {pressure: {cpu: 0}}\n", `f:4: kubernetes.breaker.pressure.cpu: must be a number above 0 and at most 100`},
		{"unknown pressure", "kubernetes:\n  breaker: {pressure: {disk: 1}}\n", `f:4: kubernetes.breaker.pressure.disk: unknown field; known: cpu, io, memory`},
		{"target with host bits", "kubernetes:\n  targets: [10.1.0.0/8]\n", `f:4: kubernetes.targets[0]: 10.1.0.0/8 is not a network: must be 10.0.0.0/8`},
		{"target with a port", "kubernetes:\n  targets: ['db:5432']\n", `f:4: kubernetes.targets[0]: "db:5432" must be a network such as 10.0.0.0/8, an address, or the name of a host without a port`},
		{"period", "kubernetes:\n  minPeriod: 1ms\n", `f:4: kubernetes.minPeriod: must be from 10ms to 1h0m0s`},
		{"qps", "kubernetes:\n  conditions: {qps: 0}\n", `f:4: kubernetes.conditions.qps: must be at least 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := config.Parse("f", []byte(head+c.text))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
