//go:build linux

package main

import (
	"math"
	"strings"
	"testing"
)

func TestSlopeIgnoresOutliers(t *testing.T) {
	var x, y []float64
	for i := range 30 {
		x, y = append(x, float64(i)), append(y, 100+2*float64(i))
	}
	y[3], y[28] = 10_000, 0
	if got := slope(x, y); math.Abs(got-2) > 0.01 {
		t.Errorf("slope %v, want 2", got)
	}
	if got := slope(nil, nil); got != 0 {
		t.Errorf("slope of nothing %v, want 0", got)
	}
}

const exposition = `# HELP prober_probe_total Results.
prober_probe_total{container="api",namespace="default",pod="p-00001",pod_uid="u",probe_type="Readiness",result="successful"} 7
prober_probe_total{result="failed",probe_type="Readiness",pod_uid="u",pod="p-00001",namespace="default",container="api"} 2
prober_probe_duration_seconds_count{container="api",namespace="default",pod="p-00001",probe_type="Readiness"} 7
prober_runs_skipped_total{reason="busy"} 3
prober_runs_skipped_total{reason="no_slot"} 4
prober_schedule_lag_seconds_bucket{le="+Inf"} 100
prober_schedule_lag_seconds_bucket{le="0.001"} 90
prober_schedule_lag_seconds_bucket{le="0.01"} 100
go_goroutines 12
`

func TestReadScrape(t *testing.T) {
	s, err := readScrape(strings.NewReader(exposition), true)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.totals[probeSeries{"p-00001", "api", "readiness"}]; got != (total{9, 2}) {
		t.Errorf("total %+v, want 9 with 2 failures", got)
	}
	if got := s.sum("prober_runs_skipped_total", ""); got != 7 {
		t.Errorf("%v skipped, want 7", got)
	}
	if s.values["go_goroutines"] != 12 || s.bytes != len(exposition) {
		t.Errorf("%v goroutines in %d bytes", s.values["go_goroutines"], s.bytes)
	}
	if got := s.lag.quantile(0.99); math.Abs(got-0.0091) > 1e-9 {
		t.Errorf("p99 %v, want 0.0091", got)
	}
	if got := s.lag.since(s.lag).total(); got != 0 {
		t.Errorf("%v observations since the same scrape", got)
	}
	if _, err := readScrape(strings.NewReader("go_goroutines 12\n"), true); err == nil {
		t.Error("a scrape without lag returned no error")
	}
	if _, err := readScrape(strings.NewReader("go_goroutines\n"), true); err == nil {
		t.Error("a line without a value returned no error")
	}
}
