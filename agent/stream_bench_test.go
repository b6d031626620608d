package agent

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
)

const (
	streamBenchPods    = 2500 // with four probes each
	streamBenchChanged = 1000 // probes that tick between two batches
)

// newStreamBench returns an agent whose probes tick only when they are triggered.
func newStreamBench(b *testing.B) (*Agent, []manager.Key) {
	memory := NewMemory()
	for i := range streamBenchPods {
		memory.desired = append(memory.desired, execPod(fmt.Sprint("pod-", i), 1_000_000))
	}
	output := []byte("a line of output of a probe of usual length")
	a, stop := followed(b, memory, func() ([]byte, error) { return output, nil })
	b.Cleanup(stop)
	keys := make([]manager.Key, 0, 4*streamBenchPods)
	for _, p := range a.manager.Select(func(*worker.Info) bool { return true }) {
		keys = append(keys, manager.Key{PodUID: types.UID(p.PodUID), Container: p.Container, Kind: p.Kind})
	}
	return a, keys
}

// probeReader is a response writer that counts the streamed probes.
type probeReader struct {
	*httptest.ResponseRecorder
	mu    sync.Mutex
	count int
	want  int
	done  chan struct{}
	dead  <-chan struct{} // if set, writes block until it is closed
	bytes int
}

var probeEvent = []byte("event: probe\n")

func (r *probeReader) Write(p []byte) (int, error) {
	if r.dead != nil {
		<-r.dead
		return 0, http.ErrHandlerTimeout
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += len(p)
	before := r.count
	r.count += bytes.Count(p, probeEvent)
	if before < r.want && r.count >= r.want {
		close(r.done)
	}
	return len(p), nil
}

func (r *probeReader) SetWriteDeadline(time.Time) error { return nil }
func (r *probeReader) Flush()                           {}

// expect returns a channel that is closed after n more probes.
func (r *probeReader) expect(n int) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count, r.want, r.done = 0, n, make(chan struct{})
	return r.done
}

// attachReader serves the stream to r until the benchmark ends.
func attachReader(b *testing.B, a *Agent, r *probeReader) (detach func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { a.serveStream()(r, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/stream", nil)) })
	return func() { cancel(); serving.Wait() }
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkStreamUpdate measures [streamBenchChanged] ticks among 10,000 probes, until the last reader has
// received all of them. readers=0 measures the ticks alone.
func BenchmarkStreamUpdate(b *testing.B) {
	a, keys := newStreamBench(b)
	for _, count := range []int{0, 1, 10, 60} {
		b.Run(fmt.Sprintf("probes=%d/changed=%d/readers=%d", len(keys), streamBenchChanged, count), func(b *testing.B) {
			readers := make([]*probeReader, count)
			for i := range readers {
				readers[i] = &probeReader{ResponseRecorder: httptest.NewRecorder()}
				present := readers[i].expect(len(keys))
				defer attachReader(b, a, readers[i])()
				<-present
			}
			var late time.Duration
			for b.Loop() {
				var done []<-chan struct{}
				for _, r := range readers {
					done = append(done, r.expect(streamBenchChanged))
				}
				for _, key := range keys[:streamBenchChanged] {
					if err := a.manager.Trigger(key); err != nil {
						b.Fatal(err)
					}
				}
				start := time.Now()
				for _, d := range done {
					<-d
				}
				late = max(late, time.Since(start))
			}
			b.ReportMetric(late.Seconds()*1000, "max-late-ms")
		})
	}
}

// BenchmarkStreamAttach measures a new reader, until it has the present state of 10,000 probes.
func BenchmarkStreamAttach(b *testing.B) {
	a, keys := newStreamBench(b)
	for _, others := range []int{0, 1} {
		b.Run(fmt.Sprintf("probes=%d/readers=%d", len(keys), others), func(b *testing.B) {
			for range others {
				r := &probeReader{ResponseRecorder: httptest.NewRecorder()}
				present := r.expect(len(keys))
				defer attachReader(b, a, r)()
				<-present
			}
			for b.Loop() {
				r := &probeReader{ResponseRecorder: httptest.NewRecorder()}
				present := r.expect(len(keys))
				detach := attachReader(b, a, r)
				<-present
				detach()
			}
		})
	}
}

// BenchmarkStreamDead measures the memory of dead readers, which accept no bytes while every probe ticks. One
// iteration is the whole measurement.
func BenchmarkStreamDead(b *testing.B) {
	a, keys := newStreamBench(b)
	for _, count := range []int{1, 60} {
		b.Run(fmt.Sprintf("probes=%d/readers=%d", len(keys), count), func(b *testing.B) {
			for b.Loop() {
				before, dead := heap(), make(chan struct{})
				var detach []func()
				for range count {
					detach = append(detach, attachReader(b, a, &probeReader{ResponseRecorder: httptest.NewRecorder(), dead: dead}))
				}
				for _, key := range keys {
					if err := a.manager.Trigger(key); err != nil {
						b.Fatal(err)
					}
				}
				time.Sleep(2 * time.Second)
				b.ReportMetric(heap()-before, "MiB")
				close(dead)
				for _, d := range detach {
					d()
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkProbesList measures GET /api/v1/probes of one container, of a page, and of all probes.
func BenchmarkProbesList(b *testing.B) {
	a, keys := newStreamBench(b)
	for name, query := range map[string]string{
		"all": "", "container": "pod=pod-7&container=web&kind=readiness", "page": "limit=500", "failures": "limit=500&result=failure",
	} {
		b.Run(fmt.Sprintf("probes=%d/list=%s", len(keys), name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := &probeReader{ResponseRecorder: httptest.NewRecorder()}
				a.serveProbes(r, httptest.NewRequest("GET", "/api/v1/probes?"+query, nil))
				if r.bytes == 0 {
					b.Fatal("no response")
				}
			}
		})
	}
}
