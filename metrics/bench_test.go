package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
)

func TestUpdateDoesNotAllocate(t *testing.T) {
	m, _ := setup(t)
	o, k := m.Observe(web), tick(probe.Success, results.Success)
	if n := testing.AllocsPerRun(100, func() { o.Tick(k) }); n != 0 {
		t.Errorf("%v allocations a tick", n)
	}
}

func BenchmarkTick(b *testing.B) {
	m, _ := setup(b)
	o, k := m.Observe(web), tick(probe.Success, results.Success)
	b.ReportAllocs()
	for b.Loop() {
		o.Tick(k)
	}
}

// BenchmarkTickParallel runs one probe on each processor.
func BenchmarkTickParallel(b *testing.B) {
	m, _ := setup(b)
	var goroutines atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		info := web
		info.Pod = strconv.FormatInt(goroutines.Add(1), 10)
		o, k := m.Observe(info), tick(probe.Success, results.Success)
		for pb.Next() {
			o.Tick(k)
		}
	})
}

// BenchmarkObserve has as many containers as probes, or a third as many.
func BenchmarkObserve(b *testing.B) {
	const probes = 100_000
	for kinds := 1; kinds <= len(probe.Kinds); kinds += 2 {
		b.Run(fmt.Sprintf("kinds=%d", kinds), func(b *testing.B) {
			infos := make([]worker.Info, probes)
			for i := range infos {
				infos[i] = web
				infos[i].Pod, infos[i].Kind = fmt.Sprint("pod-", i/kinds), probe.Kinds[i%kinds]
			}
			for b.Loop() {
				m, _ := setup(b)
				before := heap()
				for _, info := range infos {
					m.Observe(info)
				}
				b.ReportMetric(float64(heap()-before)/probes, "B/probe")
				runtime.KeepAlive(m)
			}
		})
	}
}

// BenchmarkScrape compares the handler with promhttp for a registry that has the same counts.
func BenchmarkScrape(b *testing.B) {
	const probes = 100_000
	m := metrics.New(metrics.Config{})
	observers(m, probes)
	ours, peer := newHandlers(b, m)
	for _, encoding := range []string{"identity", "gzip"} {
		for _, format := range []struct{ name, accept string }{{"text", textFormat}, {"openmetrics", openMetrics}, {"protobuf", protobuf}} {
			for _, h := range []struct {
				name string
				http.Handler
			}{{"prober", ours}, {"promhttp", peer}} {
				b.Run(fmt.Sprintf("probes=%d/encoding=%s/format=%s/handler=%s", probes, encoding, format.name, h.name), func(b *testing.B) {
					b.ReportAllocs()
					written := 0
					for b.Loop() {
						written = discard(h, "Accept", format.accept, "Accept-Encoding", encoding)
					}
					b.ReportMetric(float64(written), "written-B/op")
				})
			}
		}
	}
}

// BenchmarkTickBesideScrapes ticks while scrapes follow one another without a pause.
func BenchmarkTickBesideScrapes(b *testing.B) {
	const probes = 10_000
	m := metrics.New(metrics.Config{})
	all, k := observers(m, probes), tick(probe.Success, results.Success)
	ours, peer := newHandlers(b, m)
	for _, h := range []struct {
		name string
		http.Handler
	}{{"none", nil}, {"prober", ours}, {"promhttp", peer}} {
		b.Run(fmt.Sprintf("probes=%d/handler=%s", probes, h.name), func(b *testing.B) {
			var end atomic.Bool
			var scraping sync.WaitGroup
			if h.Handler != nil {
				scraping.Go(func() {
					for !end.Load() {
						discard(h, "Accept", openMetrics)
					}
				})
			}
			for i := 0; b.Loop(); i++ {
				all[i%probes].Tick(k)
			}
			end.Store(true)
			scraping.Wait()
		})
	}
}

// observers returns the observers of the given number of probes. Each has had one tick.
func observers(m *metrics.Metrics, probes int) []worker.ProbeObserver {
	all := make([]worker.ProbeObserver, probes)
	for i := range all {
		pod := i / len(probe.Kinds)
		all[i] = m.Observe(worker.Info{
			Subject: results.Subject{
				Namespace: "default", Pod: fmt.Sprintf("web-7d4b9c6f5d-%05d", pod), PodUID: fmt.Sprintf("f81d4fae-7dec-11d0-a765-%012d", pod), Container: "app",
			},
			Kind: probe.Kinds[i%len(probe.Kinds)], Handler: "http",
		})
		all[i].Tick(tick(probe.Success, results.Success))
	}
	return all
}

// discard returns the length of the body of a response of h.
func discard(h http.Handler, header ...string) (written int) {
	r := httptest.NewRequest("GET", "/metrics", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	h.ServeHTTP(&writer{http.Header{}, func(p []byte) (int, error) { written += len(p); return len(p), nil }}, r)
	return written
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
