package history_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// budgetPerProbeDay is the documented budget, 1 GiB for 10,000 probes and 30 days, in bytes per probe and day.
const budgetPerProbeDay = float64(history.DefaultBudget) / 10_000 / 30

// TestHistoryFitsItsBudget simulates fewer probes and days than TestThirtyDays, with a budget in proportion.
func TestHistoryFitsItsBudget(t *testing.T) {
	const probes, days = 400, 1
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, dir, probes)
		s.pass(days * 24 * time.Hour)
		perProbeDay := float64(s.store.Bytes()) / probes / days
		t.Logf("%.0f bytes for a probe and a day; the budget is %.0f", perProbeDay, budgetPerProbeDay)
		t.Logf("memory of a probe after its ticks: %d bytes", int64(heap()-s.names)/probes)
		if perProbeDay > budgetPerProbeDay {
			t.Error("the budget is too small")
		}
		if s.store.Dropped() != 0 || s.store.Errors() != 0 {
			t.Errorf("%d dropped, %d errors", s.store.Dropped(), s.store.Errors())
		}
	})
}

// TestThirtyDays simulates 30 days of 10,000 probes with a period of 10 s: latencies are lognormal, and one
// probe in a hundred flaps. It takes half an hour: make bench-history sets PROBER_HISTORY_DAYS.
func TestThirtyDays(t *testing.T) {
	days := 0
	if text := os.Getenv("PROBER_HISTORY_DAYS"); text != "" {
		if _, err := fmt.Sscan(text, &days); err != nil {
			t.Fatal(err)
		}
	}
	probes := 10_000
	if days == 0 { // the same code, in seconds
		days, probes = 1, 20
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, dir, probes)
		s.pass(time.Duration(days) * 24 * time.Hour)
		s.measure(days)
	})
}

// simulation is a store with ticking probes.
type simulation struct {
	*rig
	longest   time.Duration // the longest commit
	commits   int
	committed time.Duration // of all commits
	written   int64         // bytes written before the first tick
	largest   int64         // size of the file
	random    *rand.Rand
	observers []worker.ProbeObserver
	infos     []worker.Info
	base      []time.Duration // base latencies of the probes
	failing   []bool
	factors   [1 << 12]float64 // of random latencies
	changes   int
	ticking   time.Duration // processor time of the ticks
	phases    []probe.TraceEvent
	names     uint64 // bytes of memory before the first probe was observed
}

func newSimulation(t *testing.T, dir string, probes int) *simulation {
	s := &simulation{random: rand.New(rand.NewPCG(1, 2))}
	before := heap()
	cfg := history.Config{StateDir: dir}
	if os.Getenv("PROBER_HISTORY_SYNC") == "" {
		cfg = history.Lazy(cfg)
	}
	store := history.New(cfg)
	store.WatchCommits(func() func() {
		start := monotonic()
		return func() {
			took := monotonic() - start
			s.longest, s.commits, s.committed = max(s.longest, took), s.commits+1, s.committed+took
		}
	})
	s.rig = runStore(t, store)
	for _, name := range []string{"connect", "first byte", "body", "dns", "tls"} {
		s.phases = append(s.phases, probe.TraceEvent{Type: probe.TracePhase, Name: name})
	}
	for i := range s.factors {
		s.factors[i] = math.Exp(0.35 * s.random.NormFloat64())
	}
	for i := range probes {
		of := info(fmt.Sprintf("checkout-service-%05d", i), fmt.Sprintf("uid-%05d", i))
		of.Namespace = fmt.Sprintf("team-%02d", i%40)
		s.infos = append(s.infos, of)
		s.base = append(s.base, time.Duration(float64(time.Millisecond)*math.Exp(5.7*s.random.Float64())))
	}
	s.failing = make([]bool, probes)
	s.observers = make([]worker.ProbeObserver, probes)
	names := heap()
	s.names = names
	for i := range s.infos {
		s.observers[i] = s.store.Observe(s.infos[i])
		s.change(s.infos[i], states.Success, "")
		if i%1000 == 999 {
			s.settle()
		}
	}
	s.settle()
	t.Logf("memory of a probe: %d bytes (and %d of its names, which others have too)", int(heap()-names)/probes, int(names-before)/probes)
	return s
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// pass advances the time by d. Each probe ticks six times a minute.
func (s *simulation) pass(d time.Duration) {
	s.written = writtenBytes(s.t)
	for range d / time.Minute {
		start := processorTime()
		for i, o := range s.observers {
			flaps := i%100 == 0
			if flaps && s.random.IntN(5) == 0 {
				s.flap(i)
			}
			s.tick(i, o)
		}
		s.ticking += processorTime() - start
		time.Sleep(time.Minute)
		synctest.Wait()
		s.largest = max(s.largest, s.store.FileSize())
	}
}

func (s *simulation) flap(i int) {
	s.failing[i] = !s.failing[i]
	s.changes++
	if s.failing[i] {
		s.change(s.infos[i], states.Failure, fmt.Sprintf("Get \"http://10.0.%d.%d:8080/healthz\": context deadline exceeded after %d attempts", i/250, i%250, s.random.IntN(9)))
	} else {
		s.change(s.infos[i], states.Success, "HTTP 200")
	}
}

func (s *simulation) tick(i int, o worker.ProbeObserver) {
	trace := worker.Trace{Events: s.phases[:phasesOf(i)]}
	t := worker.Tick{Counted: true, Outcome: probe.Outcome{Result: probe.Success}, Trace: &trace}
	if s.failing[i] {
		t.Outcome.Result = probe.Failure
	}
	for range 6 {
		t.End = t.Start.Add(s.latency(i, 1))
		for k := range trace.Events {
			trace.Events[k].Duration = s.latency(i, float64(k+1)/15)
		}
		o.Tick(&t)
	}
}

// phasesOf returns how many phases a probe has: as exec, tcp, http and https probes have.
func phasesOf(probe int) int { return [...]int{0, 1, 3, 3, 5}[probe%5] }

// latency returns a random latency of a probe, or of a share of its ticks.
func (s *simulation) latency(probe int, share float64) time.Duration {
	return time.Duration(share * float64(s.base[probe]) * s.factors[s.random.Uint32()%uint32(len(s.factors))])
}

// measure logs the resources that the history uses.
func (s *simulation) measure(days int) {
	t := s.t
	probes := len(s.infos)
	spent := processorTime() - s.ticking
	t.Logf("%d probes, %d days, %d changes: %d MiB of files, %.0f bytes for a probe and a day", probes, days, s.changes, s.store.Bytes()>>20, float64(s.store.Bytes())/float64(probes*days))
	written := writtenBytes(t) - s.written
	t.Logf("memory of a probe after its ticks: %d bytes", int64(heap()-s.names)/int64(probes))
	t.Logf("the file had up to %d MiB; written: %d MiB a day, %.1f KiB/s; processor %.2f %% of one core",
		s.largest>>20, written>>20/int64(days), float64(written)/1024/float64(days*86400), 100*spent.Seconds()/float64(days*86400))
	t.Logf("%d commits, on average %v, the longest %v", s.commits, s.committed/time.Duration(max(s.commits, 1)), s.longest)
	if s.largest > s.store.MaxSize() {
		t.Errorf("the file had %d bytes", s.largest)
	}
	if got, most := s.store.Bytes(), int64(history.DefaultBudget); got > most || s.store.Dropped() != 0 || s.store.Errors() != 0 {
		t.Errorf("%d bytes, %d dropped, %d errors", got, s.store.Dropped(), s.store.Errors())
	}
	for _, incidents := range []bool{false, true} {
		before, items, listed := heap(), 0, 0
		start, began := monotonic(), processorTime()
		var most uint64
		err := s.store.Report(context.Background(), &history.Query{Until: time.Now(), Match: func(*history.Key) bool { return true }, Incidents: incidents},
			func(*history.Page) error { return nil }, func(i *api.ReportItem) error {
				if items++; items%1000 == 1 {
					most = max(most, heap()-min(heap(), before))
				}
				listed += len(i.Incidents)
				return nil
			})
		if err != nil || items != probes {
			t.Fatal(items, err)
		}
		t.Logf("report of %d probes with %d incidents: %v, processor time %v, %d MiB live", items, listed, monotonic()-start, processorTime()-began, most>>20)
	}
	start, began := monotonic(), processorTime()
	h, ok, err := s.store.Probe(context.Background(), history.Key{Namespace: s.infos[0].Namespace, Pod: s.infos[0].Pod, Container: "web", Kind: probe.Readiness}, time.Time{}, time.Now())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	t.Logf("history of one probe: %d points, %d transitions, %v, processor time %v", len(h.Points), len(h.Transitions), monotonic()-start, processorTime()-began)
}

// monotonic returns the real time, also in a bubble.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// writtenBytes returns the bytes that this process has written to files, as the kernel counts them.
func writtenBytes(t testing.TB) int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	if _, err := fmt.Sscanf(string(text[bytes.Index(text, []byte("wchar:")):]), "wchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
