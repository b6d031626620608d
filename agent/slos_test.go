package agent_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
)

const twoSLOs = `slo:
- {name: shop, match: [{labels: tier=web}], objective: 99.9}
- {name: other, match: [{pod: "cart-*"}], objective: 95, window: 7d, kinds: [readiness, liveness], maintenance: count}
`

func TestSLOs(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	target.status.Store(http.StatusServiceUnavailable)
	dir := t.TempDir()
	file := dir + "/prober.yaml"
	write(t, file, configHead+twoSLOs)
	manifest := strings.Replace(target.external("shop"), "  annotations:\n", "  labels: {tier: web}\n  annotations:\n", 1)
	r := start(t, manifest, func(c *agent.Config) { c.ConfigFile, c.StateDir = file, dir })
	awaitEvent(t, r.stream(), "probe", "failing", func(s *api.ProbeStatus) bool { return s.State == "failure" })
	v := newValidator(t)
	list := func(query string) (list api.SLOList) {
		t.Helper()
		status, body := r.do("GET", "/api/v1/slos"+query)
		if err := errors.Join(json.Unmarshal([]byte(body), &list), v.check("GET", "/api/v1/slos", status, body)); err != nil {
			t.Fatalf("%s: %v in %s", query, err, body)
		}
		return list
	}
	all := list("").Items
	if len(all) != 2 || all[0].Name != "shop" || all[0].Probes == 0 || all[0].Failing == 0 || all[0].Window != "30d" || all[0].Match[0].Labels != "tier=web" {
		t.Errorf("%+v", all)
	}
	if len(all) == 2 && (all[1].Probes != 0 || all[1].Availability != nil || all[1].Maintenance != "count" || len(all[1].Kinds) != 2) {
		t.Errorf("%+v", all[1])
	}
	if of := list("?namespace=default&pod=shop&container=web&kind=readiness").Items; len(of) != 1 || of[0].Name != "shop" {
		t.Errorf("of the probe: %+v", of)
	}
	for query, want := range map[string]string{"?name=a": "unknown parameter", "?pod=shop": "need namespace, pod, container and kind", "?namespace=a&pod=a&container=a&kind=a": "unknown kind"} {
		if status, body := r.do("GET", "/api/v1/slos"+query); status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	_, scrape := r.do("GET", "/metrics")
	for _, want := range []string{"prober_slo_objective_ratio{slo=\"shop\"} 0.999\n", "prober_slo_good_seconds_total{slo=\"shop\"} 0\n", "prober_slo_bad_seconds_total{slo=\"shop\"} "} {
		if !strings.Contains(scrape, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	if strings.Contains(scrape, "prober_slo_bad_seconds_total{slo=\"shop\"} 0\n") {
		t.Error("the failing probe has no bad time")
	}
	write(t, file, configHead)
	r.reload()
	if all := list("").Items; len(all) != 0 {
		t.Errorf("after the reload: %+v", all)
	}
}
