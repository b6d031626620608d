package agent_test

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

const replacePeriod = 100 * time.Millisecond

// The test replaces a plugin repeatedly under load, with bad versions in between. Every tick runs once,
// in the order of the versions, and succeeds.
func TestReplacementsUnderLoadLoseNoTick(t *testing.T) {
	checkReplacements(t, replaceUnderLoad(t, 40, 20, 80)) // few enough for any machine
}

// BenchmarkReplace measures 1,000 replacements of a plugin under 2,000 probes a second. One iteration
// is the whole measurement.
func BenchmarkReplace(b *testing.B) {
	for b.Loop() {
		r := replaceUnderLoad(b, 200, 100, 1000)
		checkReplacements(b, r)
		slices.Sort(r.took)
		slices.Sort(r.lags)
		b.ReportMetric(float64(len(r.took)), "replacements")
		b.ReportMetric(float64(r.refused), "refused")
		b.ReportMetric(float64(r.took[len(r.took)/2].Microseconds())/1000, "p50-replace-ms")
		b.ReportMetric(float64(r.took[len(r.took)-1].Microseconds())/1000, "max-replace-ms")
		b.ReportMetric(float64(len(r.lags))/r.time.Seconds(), "ticks/s")
		b.ReportMetric(float64(r.skipped), "skipped-ticks")
		b.ReportMetric(float64(r.lags[len(r.lags)*99/100].Microseconds())/1000, "p99-lag-ms")
		b.ReportMetric(float64(r.lags[len(r.lags)-1].Microseconds())/1000, "max-lag-ms")
		b.ReportMetric(float64(r.after.heap-r.before.heap)/1024, "heap-growth-KiB")
		b.ReportMetric(float64(r.after.resident-r.before.resident)/1024, "resident-growth-KiB")
		b.ReportMetric(float64(r.after.mappings-r.before.mappings), "mappings-growth")
	}
	b.ReportMetric(0, "ns/op")
}

// checkReplacements checks for faults and for growth of the footprint.
func checkReplacements(t testing.TB, r *replacements) {
	t.Helper()
	for _, fault := range r.faults {
		t.Error(fault)
	}
	if r.after.goroutines > r.before.goroutines+10 || r.after.files > r.before.files || r.after.mappings > r.before.mappings+20 {
		t.Errorf("leaked: %+v, before that %+v", r.after, r.before)
	}
	if growth := r.after.heap - r.before.heap; growth > 2<<20 {
		t.Errorf("the heap has grown by %d bytes", growth)
	}
}

// footprint has the resources of the process.
type footprint struct {
	goroutines, files, mappings int
	heap, resident              int64
}

func footprintNow(t testing.TB) (f footprint) {
	t.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.goroutines, f.heap = runtime.NumGoroutine(), int64(m.HeapAlloc)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	f.files, f.mappings, f.resident = len(files), strings.Count(string(maps), "\n"), resident(t)
	return f
}

// replacements is the result of a run.
type replacements struct {
	probes        int
	before, after footprint
	time          time.Duration
	took          []time.Duration // of each replacement
	refused       int

	mu      sync.Mutex
	log     bool
	lags    []time.Duration // of the ticks
	skipped int
	faults  []string
}

func (r *replacements) fault(format string, args ...any) {
	if len(r.faults) < 10 {
		r.faults = append(r.faults, fmt.Sprintf(format, args...))
	}
}

// early reports whether there were fewer ticks than probes since the log was enabled.
func (r *replacements) early() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log && len(r.lags) < r.probes
}

// Observe implements [worker.Observer].
func (r *replacements) Observe(worker.Info) worker.ProbeObserver { return &replacedProbe{result: r} }

// replacedProbe checks the schedule and the order of the ticks of one probe.
type replacedProbe struct {
	result  *replacements
	due     time.Time
	ticks   int
	skipped int // ticks skipped between the last tick and the next
	ahead   int // ticks to be skipped after the next one, which starts too late for them
	run     int
	version int
}

// Tick implements [worker.ProbeObserver].
func (p *replacedProbe) Tick(t *worker.Tick) {
	p.result.mu.Lock()
	defer p.result.mu.Unlock()
	p.ticks++
	step := t.Due.Sub(p.due)
	if p.ticks > 2 && step != time.Duration(1+p.skipped)*replacePeriod { // the second tick spreads the probes
		p.result.fault("tick %d is due %v after the one before, with %d skipped", p.ticks, step, p.skipped)
	}
	p.skipped, p.ahead = p.ahead, 0
	version, err := strconv.Atoi(strings.TrimPrefix(t.Outcome.Output, "v"))
	switch {
	case t.Err != nil || err != nil || t.Outcome.Result != probe.Success || t.Attempts != 1:
		p.result.fault("tick %d ends in %+v after %d attempts, %v", p.ticks, t.Outcome, t.Attempts, t.Err)
	case version < p.version:
		p.result.fault("version %d ran after version %d", version, p.version)
	case t.Run != p.run+1:
		p.result.fault("the run went from %d to %d", p.run, t.Run)
	}
	p.due, p.run, p.version = t.Due, t.Run, version
	if p.result.log {
		p.result.lags = append(p.result.lags, t.Start.Sub(t.Due))
	}
}

// Skipped implements [worker.ProbeObserver].
func (p *replacedProbe) Skipped(reason worker.SkipReason, ticks int) {
	p.result.mu.Lock()
	defer p.result.mu.Unlock()
	p.ahead += ticks
	if reason != worker.SkipBusy { // the tick itself was skipped, and not ticks that were due meanwhile
		p.skipped, p.ahead = p.skipped+p.ahead, 0
	}
	p.result.skipped += ticks
}

// Close implements [worker.ProbeObserver].
func (p *replacedProbe) Close() {}

// replaceUnderLoad replaces a plugin n times by a version with other bytes, while its probes tick, after some
// replacements to warm up. A bad version precedes each tenth version. Footprints are taken while no probe
// runs.
func replaceUnderLoad(t testing.TB, probes, warmUp, n int) *replacements {
	t.Helper()
	host, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	r := &replacements{probes: probes, lags: make([]time.Duration, 0, 1<<18)}
	swap := replace.New(replace.Config{Name: "demo", Closed: func(_ probe.Handler, err error) {
		if err != nil {
			t.Error(err)
		}
	}})
	replace := func(g guestSpec) error {
		h, err := host.Load(t.Context(), plugin.Found{Module: g.module(), Manifest: plugin.Minimal("demo")})
		if err != nil {
			return err
		}
		next := quarantine.New(h, quarantine.Config{})
		if err := swap.Replace(t.Context(), next); err != nil {
			return fmt.Errorf("%w%v", err, io.Closer(next).Close())
		}
		return nil
	}
	version := 0
	good := func() {
		t.Helper()
		if err := replace(guestSpec{text: fmt.Sprint("v", version)}); err != nil {
			t.Fatal(err)
		}
		version++
	}
	good()
	probed := func(times int, took *[]time.Duration) footprint {
		m := replacedPods(t, swap, r)
		for i := 0; i < times || r.early(); i++ {
			if version%10 == 1 {
				bad := []guestSpec{{trapsStart: true}, {trapsProbe: true}, {refuse: 1}}[version/10%3]
				if bad.text = fmt.Sprint("bad", version); replace(bad) == nil {
					t.Error("a bad version was taken")
				}
				r.refused++
			}
			begun := time.Now()
			good()
			*took = append(*took, time.Since(begun))
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		good() // ends the previous generation
		return footprintNow(t)
	}
	r.before = probed(warmUp, new([]time.Duration))
	r.mu.Lock()
	r.log = true
	r.mu.Unlock()
	start := time.Now()
	r.after = probed(n, &r.took)
	r.time = time.Since(start)
	err = swap.Close()
	if _, generation := swap.Current(); err != nil || swap.Live() != 0 || generation != version {
		t.Errorf("%v; %d live, generation %d", err, swap.Live(), generation)
	}
	if host.Memory() != 0 {
		t.Errorf("%d bytes of guests are left", host.Memory())
	}
	if err := host.Close(); err != nil {
		t.Error(err)
	}
	return r
}

// replacedPods runs the probes.
func replacedPods(t testing.TB, swap *replace.Handler, r *replacements) *manager.Manager {
	t.Helper()
	var registry handlers.Registry
	if err := registry.Register("demo", "test", swap); err != nil {
		t.Fatal(err)
	}
	store := new(manager.StatusStore)
	m, err := manager.New(manager.Config{
		Status: store, Handlers: &registry, Observers: []worker.Observer{r}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.probes {
		name := fmt.Sprint("pod-", i)
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{
			declared.Annotation: fmt.Sprintf("a: {readiness: {plugin: {name: demo, config: {n: %d}}, period: %v, timeout: 5m}}", i, replacePeriod),
		}}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a"}}}}
		store.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning, PodIP: "127.0.0.1", ContainerStatuses: []v1.ContainerStatus{{
			Name: "a", ContainerID: "containerd://" + name, Started: new(true),
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}}})
		if err := m.AddPod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	return m
}
