package metrics_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
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

func BenchmarkObserve(b *testing.B) {
	const probes = 100_000
	infos := make([]worker.Info, probes)
	for i := range infos {
		infos[i] = web
		infos[i].Pod = fmt.Sprint("pod-", i)
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
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
