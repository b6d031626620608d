package agent_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
)

func TestReportOfAnAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := newTarget(t)
	r := start(t, target.external("shop"), func(c *agent.Config) { c.StateDir = dir })
	awaitProbe(t, r.stream(), "ready", ready)
	until := time.Now().Add(patience)
	var report api.Report
	for len(report.Items) == 0 || report.Items[0].Uptime == nil { // changes are written after 200 ms
		if time.Now().After(until) {
			t.Fatalf("%+v", report)
		}
		r.get("/api/v1/report", &report)
	}
	i := report.Items[0]
	if i.Namespace != "default" || i.Pod != "shop" || i.Container != "web" || i.Kind != "readiness" || i.Handler != "http" || i.Seconds.Success <= 0 {
		t.Errorf("%+v", i)
	}
	status, text := r.do("GET", "/api/v1/report?pod=shop", "Accept", "text/csv")
	if rows, err := csv.NewReader(strings.NewReader(text)).ReadAll(); err != nil || status != 200 || len(rows) != 2 {
		t.Errorf("%d %v %q", status, err, rows)
	}
	var h api.ProbeHistory
	if r.get("/api/v1/probes/default/shop/web/readiness/history", &h); len(h.Transitions) < 2 {
		t.Errorf("%+v", h)
	}
	if _, metrics := r.do("GET", "/metrics"); !strings.Contains(metrics, "prober_history_errors_total 0") || strings.Contains(metrics, "prober_history_bytes 0\n") {
		t.Error("the metrics of the history are wrong")
	}
	v := newValidator(t)
	var d api.ProbeDurations
	if r.get("/api/v1/probes/default/shop/web/readiness/durations", &d); d.Ticks == 0 || d.P99Seconds <= 0 || d.Target == "" || len(d.Points) == 0 ||
		len(d.Phases) < 2 || d.Phases[0].Name != "connect" {
		t.Errorf("%+v", d)
	}
	const one = "/api/v1/probes/{namespace}/{pod}/{container}/{kind}/history"
	const durations = "/api/v1/probes/{namespace}/{pod}/{container}/{kind}/durations"
	for path, at := range map[string]string{
		"/api/v1/report": "/api/v1/report", "/api/v1/report?limit=x": "/api/v1/report",
		"/api/v1/probes/default/shop/web/readiness/history": one, "/api/v1/probes/default/shop/db/readiness/history": one,
		"/api/v1/probes/default/shop/web/readiness/durations": durations, "/api/v1/probes/default/shop/db/readiness/durations": durations,
		"/api/v1/probes/default/shop/web/readiness/durations?since=x": durations,
	} {
		status, body := r.do("GET", path)
		if err := v.check("GET", at, status, body); err != nil {
			t.Errorf("%s: %v\n%s", path, err, body)
		}
	}
}

// A history that cannot be written only causes a warning.
func TestHistoryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "history"), nil, 0o600); err != nil { // a file is in its place
		t.Fatal(err)
	}
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.StateDir = dir })
	r.lines.await(t, 0, `msg="history cannot be written; probing goes on"`)
	awaitProbe(t, r.stream(), "ready", ready)
	if status, checks := r.do("GET", "/readyz?verbose"); status != 200 || !strings.Contains(checks, "[!]history cannot be written since ") {
		t.Errorf("%d %s", status, checks)
	}
	if _, metrics := r.do("GET", "/metrics"); !strings.Contains(metrics, "\nprober_history_errors_total ") || strings.Contains(metrics, "prober_history_errors_total 0\n") {
		t.Error("the error is not counted")
	}
	if err := os.Remove(filepath.Join(dir, "history")); err != nil {
		t.Fatal(err)
	}
	r.lines.await(t, 0, `msg="history is written again"`)
}

func TestReportWithoutStateDir(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	for _, path := range []string{"/api/v1/report", "/api/v1/probes/default/shop/web/readiness/history", "/api/v1/probes/default/shop/web/readiness/durations"} {
		if status, body := r.do("GET", path); status != 404 || !strings.Contains(body, "the agent keeps no history: --state-dir is not set") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}
