package metrics_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
	gocmp "github.com/google/go-cmp/cmp"
)

// probesHandler returns a handler of the probes' series alone.
func probesHandler(m *metrics.Metrics) http.Handler {
	return m.Handler(metrics.HandlerConfig{})
}

// fleet is Metrics with a model of its series.
type fleet struct {
	t       *testing.T
	m       *metrics.Metrics
	workers []openWorker
	open    map[worker.Info]int // workers
	ticks   map[worker.Info]int // ticks of the open workers, and of their predecessors without a gap
}

type openWorker struct {
	info worker.Info
	worker.ProbeObserver
}

func (f *fleet) observe(info worker.Info) {
	o := f.m.Observe(info)
	o.Tick(tick(probe.Success, results.Success))
	f.workers = append(f.workers, openWorker{info, o})
	f.open[info]++
	f.ticks[info]++
}

func (f *fleet) close(i int) {
	ended := f.workers[i]
	ended.Close()
	f.workers[i] = f.workers[len(f.workers)-1]
	f.workers = f.workers[:len(f.workers)-1]
	if f.open[ended.info]--; f.open[ended.info] == 0 {
		delete(f.ticks, ended.info)
	}
}

// check compares a scrape with the model.
func (f *fleet) check() {
	f.t.Helper()
	labels := func(i worker.Info) []string {
		return []string{i.Container, i.Namespace, i.Pod, i.PodUID, i.Kind.Title()}
	}
	want := []string{}
	for _, i := range slices.SortedFunc(maps.Keys(f.ticks), func(a, b worker.Info) int {
		return slices.CompareFunc(labels(a), labels(b), cmp.Compare[string])
	}) {
		want = append(want, fmt.Sprintf("prober_probe_total{container=%q,namespace=%q,pod=%q,pod_uid=%q,probe_type=%q,result=\"successful\"} %d",
			i.Container, i.Namespace, i.Pod, i.PodUID, i.Kind.Title(), f.ticks[i]))
	}
	_, text := scrape(f.t, probesHandler(f.m), "GET", "?name[]=prober_probe_total")
	got := []string{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(got, want) {
		f.t.Fatalf("with %d workers (-want +got)\n%.2000s", len(f.workers), gocmp.Diff(want, got))
	}
}

func TestSeriesStaySortedWhileWorkersComeAndGo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := &fleet{t: t, m: metrics.New(metrics.Config{}), open: make(map[worker.Info]int), ticks: make(map[worker.Info]int)}
	info := func(pod int) worker.Info {
		return worker.Info{Subject: results.Subject{
			Namespace: fmt.Sprint("n", random.IntN(2)), Pod: fmt.Sprintf("p%05d", pod), PodUID: fmt.Sprint("u", random.IntN(3)), Container: fmt.Sprint("c", random.IntN(2)),
		}, Kind: probe.Kinds[random.IntN(len(probe.Kinds))]}
	}
	f.check()
	for pod := range 1500 { // in order
		f.observe(info(pod))
	}
	f.check()
	for _, share := range []int{90, 90, 50, 50, 10, 10, 0, 90, 0, 0, 0} { // percentage of the changes that add a worker
		for range 800 {
			if random.IntN(100) < share {
				f.observe(info(random.IntN(1500)))
			} else if len(f.workers) > 0 {
				f.close(random.IntN(len(f.workers)))
			}
		}
		f.check()
	}
	if len(f.workers) > 0 {
		t.Errorf("%d workers in the end, want none", len(f.workers))
	}
}

// A pod that replaces one with the same name continues its durations. No scrape counts them twice or misses
// them.
func TestDurationsGrowWhileOnePodReplacesAnother(t *testing.T) {
	m := metrics.New(metrics.Config{})
	for i := range 700 { // more than one chunk
		info := web
		info.Pod = fmt.Sprintf("pod-%03d", i)
		m.Observe(info).Tick(tick(probe.Success, results.Success))
	}
	const pods = 300
	var replacing sync.WaitGroup
	done := make(chan struct{})
	replacing.Go(func() {
		defer close(done)
		var before worker.ProbeObserver
		for i := range pods {
			info := web
			info.Pod, info.PodUID = "pod-255-db", fmt.Sprint("u", (i*7)%10) // sorted before and after it
			o := m.Observe(info)
			o.Tick(tick(probe.Success, results.Success))
			if before != nil {
				before.Close()
			}
			before = o
			runtime.Gosched()
		}
	})
	h, last, ended := probesHandler(m), 0, false
	for !ended {
		select {
		case <-done:
			ended = true
		default:
		}
		_, text := scrape(t, h, "GET", "?name[]=prober_probe_duration_seconds")
		now := 0
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "prober_probe_duration_seconds_count{") && strings.Contains(line, `pod="pod-255-db"`) {
				_, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
				now, _ = strconv.Atoi(value)
			}
		}
		if now < last {
			t.Fatalf("the count fell from %d to %d", last, now)
		}
		last = now
	}
	replacing.Wait()
	if last != pods {
		t.Errorf("%d durations in the end, want %d", last, pods)
	}
}

func TestSlowScrapeCountsDurationsOfEndedPodOnce(t *testing.T) {
	m := metrics.New(metrics.Config{})
	for i := range 100 { // more than a chunk of text
		info := web
		info.Pod = fmt.Sprintf("pod-%03d", i)
		m.Observe(info).Tick(tick(probe.Success, results.Success))
	}
	var pair [2]worker.ProbeObserver
	for i := range pair {
		info := web
		info.PodUID = fmt.Sprint("u", i)
		pair[i] = m.Observe(info)
		pair[i].Tick(tick(probe.Success, results.Success))
	}
	var text strings.Builder
	probesHandler(m).ServeHTTP(&writer{http.Header{}, func(p []byte) (int, error) {
		if text.Len() == 0 {
			pair[0].Close() // its durations move to the other worker
		}
		return text.Write(p)
	}}, httptest.NewRequest("GET", "/metrics?name[]=prober_probe_duration_seconds", nil))
	if want := "prober_probe_duration_seconds_count{container=\"web\",namespace=\"default\",pod=\"shop\",probe_type=\"Readiness\"} 2\n"; !strings.HasSuffix(text.String(), want) {
		t.Errorf("the end is %q, want %q", text.String()[text.Len()-2*len(want):], want)
	}
}

func TestScrapeMemoryIsIndependentOfProbes(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var bytes [2]uint64
	for i, probes := range []int{2_000, 20_000} {
		m := metrics.New(metrics.Config{})
		for pod := range probes {
			info := web
			info.Pod = strconv.Itoa(pod)
			k := tick(probe.Success, results.Success)
			k.Outcome.Metrics = []probe.Metric{{Name: "lag", Value: 1, Labels: map[string]string{"role": "replica"}}}
			m.Observe(info).Tick(k)
		}
		h := probesHandler(m)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		discard(h)
		runtime.ReadMemStats(&after)
		bytes[i] = after.TotalAlloc - before.TotalAlloc
	}
	if bytes[1] > bytes[0]+64<<10 {
		t.Errorf("%d bytes for 2,000 probes, %d for 20,000", bytes[0], bytes[1])
	}
}
