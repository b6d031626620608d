// Package parts measures single parts of the core: the metrics of many probes, and the cache of decided
// results with a reader that has stopped.
package parts

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/kubelet/prober"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
)

// SeriesJob is the name of the job of [ServeSeries].
const SeriesJob = "series"

// SeriesRequest requests measurements of the metrics of many probes, and of some scrapes.
type SeriesRequest struct {
	Subject string // "kubelet" or "prober"
	Probes  int
	Scrapes int
}

// series is the interface of the metrics of many probes.
type series struct {
	update func(probe int)
	scrape http.Handler
}

// ServeSeries is the job of a child. Its answer is one run for each scrape.
func ServeSeries(_ context.Context, c *child.Conn) error {
	var r SeriesRequest
	if err := c.Next(&r); err != nil {
		return err
	}
	runs, err := measureSeries(&r)
	if err != nil {
		return err
	}
	return c.Reply(runs)
}

func measureSeries(r *SeriesRequest) (runs []record.Run, err error) {
	idle, err := resident()
	if err != nil {
		return nil, err
	}
	var s *series
	switch r.Subject {
	case "kubelet":
		s = kubeletSeries(r.Probes)
	case "prober":
		s, err = proberSeries(r.Probes)
	default:
		err = fmt.Errorf("unknown subject %q", r.Subject)
	}
	if err != nil {
		return nil, err
	}
	for i := range r.Probes { // create the series
		s.update(i)
	}
	used, err := resident()
	if err != nil {
		return nil, err
	}
	for n := range r.Scrapes {
		run := record.Run{Subject: r.Subject, Round: n + 1, Figures: map[string]record.Number{"bytes": record.Number(float64(used-idle) / float64(r.Probes))}}
		if err := s.measure(r.Probes, run.Figures); err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// measure updates each probe once, and scrapes.
func (s *series) measure(probes int, figures map[string]record.Number) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for i := range probes {
		s.update(i)
	}
	figures["update-ns"] = record.Number(float64(time.Since(start).Nanoseconds()) / float64(probes))
	runtime.ReadMemStats(&after)
	figures["update-allocs"] = record.Number(float64(after.Mallocs-before.Mallocs) / float64(probes))
	if _, err := resident(); err != nil {
		return err
	}
	if err := measure.ResetPeak(); err != nil {
		return err
	}
	rest, err := measure.PeakResident()
	if err != nil {
		return err
	}
	cpu, err := measure.CPU()
	if err != nil {
		return err
	}
	w, start := &counter{header: http.Header{}}, time.Now()
	s.scrape.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	figures["scrape-ms"] = record.Number(time.Since(start).Seconds() * 1000)
	used, err := measure.CPU()
	if err != nil {
		return err
	}
	peak, err := measure.PeakResident()
	if err != nil {
		return err
	}
	if w.status != 0 && w.status != http.StatusOK {
		return fmt.Errorf("a scrape failed with status %d", w.status)
	}
	figures["scrape-cpu-ms"] = record.Number((used - cpu).Seconds() * 1000)
	figures["scrape-extra-mb"] = record.Number(float64(peak-rest) / (1 << 20))
	figures["scrape-mb"] = record.Number(float64(w.bytes) / (1 << 20))
	return nil
}

// counter is a response writer that counts and discards bytes.
type counter struct {
	header http.Header
	status int
	bytes  int64
}

func (c *counter) Header() http.Header    { return c.header }
func (c *counter) WriteHeader(status int) { c.status = status }
func (c *counter) Flush()                 {}
func (c *counter) Write(b []byte) (int, error) {
	c.bytes += int64(len(b))
	return len(b), nil
}

// resident returns the resident memory of this process after a garbage collection, in bytes.
func resident() (int64, error) {
	runtime.GC()
	debug.FreeOSMemory()
	return measure.Resident(0)
}

const took = 2 * time.Millisecond // duration of each attempt

// labels yields the labels of n probes: a liveness and a readiness probe of each container. Both share their
// strings, as in a pod.
func labels(n int) iter.Seq2[int, worker.Info] {
	return func(yield func(int, worker.Info) bool) {
		i := worker.Info{Subject: results.Subject{Namespace: "default", Container: "app"}, Handler: "exec"}
		for at := range n {
			if i.Kind = probe.Readiness; at%2 == 0 {
				i.Kind = probe.Liveness
				i.Pod, i.PodUID = fmt.Sprintf("web-7d4b9c6f5d-%06d", at/2), fmt.Sprintf("f81d4fae-7dec-11d0-a765-%012d", at/2)
			}
			if !yield(at, i) {
				return
			}
		}
	}
}

// kubeletSeries has the kubelet's own metric vectors, and the label maps that each of its workers keeps.
func kubeletSeries(n int) *series {
	legacyregistry.MustRegister(prober.ProberResults, prober.ProberDuration)
	type probe struct{ succeeded, failed, unknown, duration, unknownDuration prometheus.Labels }
	all := make([]probe, n)
	for at, i := range labels(n) {
		result := func(result string) prometheus.Labels {
			return prometheus.Labels{"probe_type": i.Kind.Title(), "container": i.Container, "pod": i.Pod, "namespace": i.Namespace, "pod_uid": i.PodUID, "result": result}
		}
		duration := func() prometheus.Labels {
			return prometheus.Labels{"probe_type": i.Kind.Title(), "container": i.Container, "pod": i.Pod, "namespace": i.Namespace}
		}
		all[at] = probe{result("successful"), result("failed"), result("unknown"), duration(), duration()}
	}
	return &series{
		update: func(i int) {
			prober.ProberResults.With(all[i].succeeded).Inc()
			prober.ProberDuration.With(all[i].duration).Observe(took.Seconds())
		},
		scrape: promhttp.HandlerFor(legacyregistry.DefaultGatherer, promhttp.HandlerOpts{DisableCompression: true}),
	}
}

// proberSeries has the metrics of package metrics.
func proberSeries(n int) (*series, error) {
	m, registry := metrics.New(metrics.Config{}), prometheus.NewRegistry()
	if err := m.RegisterShared(registry); err != nil {
		return nil, err
	}
	all := make([]worker.ProbeObserver, n)
	for at, i := range labels(n) {
		all[at] = m.Observe(i)
	}
	start := time.Now()
	tick := &worker.Tick{
		Due: start, Start: start, End: start.Add(took), Handler: "exec", Attempts: 1,
		Outcome: probe.Outcome{Result: probe.Success}, Counted: true, Result: results.Success, Run: 1, Threshold: 1,
	}
	return &series{
		update: func(i int) { all[i].Tick(tick) },
		scrape: m.Handler(metrics.HandlerConfig{Rest: registry}),
	}, nil
}
