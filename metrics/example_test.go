package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
	"github.com/prometheus/client_golang/prometheus"
)

// The series of probes come from m, and all other metrics from a registry, to which a program may add its
// own.
func ExampleMetrics_Handler() {
	m := metrics.New(metrics.Config{Version: "1.0.0", Buckets: metrics.NoBuckets}) // one of Observers in manager.Config
	registry := prometheus.NewRegistry()
	if err := m.RegisterShared(registry); err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler(metrics.HandlerConfig{Rest: registry, MaxInFlight: 4}))

	m.Observe(web).Tick(tick(probe.Success, results.Success)) // as a worker does
	response := httptest.NewRecorder()
	mux.ServeHTTP(response, httptest.NewRequest("GET", "/metrics?name[]=prober_workers&name[]=prober_probe_total", nil))
	fmt.Print(response.Body)
	// Output:
	// # HELP prober_probe_total Results of the probes of a container. A warning counts as successful; errors are not counted. The name and labels are the kubelet's.
	// # TYPE prober_probe_total counter
	// prober_probe_total{container="web",namespace="default",pod="shop",pod_uid="u1",probe_type="Readiness",result="successful"} 1
	// # HELP prober_workers Probes that have a worker.
	// # TYPE prober_workers gauge
	// prober_workers 1
}
