package process_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/probe"
)

// hostiles are the names of programs that misbehave.
var hostiles = []string{"crash loop", "killed in a call", "hangs at start", "ignores its deadline", "floods", "drowns", "check that floods"}

// hostile starts one of hostiles.
func hostile(t testing.TB, name string) probe.Handler {
	t.Helper()
	soon := process.Config{Pause: time.Millisecond, MaxPause: 50 * time.Millisecond, StartTimeout: 20 * time.Second}
	mode := map[string]string{
		"crash loop": "die", "killed in a call": "suicide", "ignores its deadline": "deaf", "floods": "flood", "drowns": "drown",
	}[name]
	switch name {
	case "hangs at start":
		soon.Env = []string{"START=once", "THEN=hang", "FLAG=" + filepath.Join(t.TempDir(), "flag")}
		h := load(t, soon)
		b := bind(t, h, "suicide")
		if _, err := attempt(t, b, patience); err == nil {
			t.Fatal("it has not ended")
		}
		return b
	case "check that floods":
		dir := checkFolder(t)
		if err := os.WriteFile(filepath.Join(dir, "check_it"), []byte("#!/bin/sh\nexec yes\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		c, err := process.LoadCheck(process.Config{}, checkOf(t, "[check_it]", dir))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	return bind(t, load(t, soon), mode)
}

// schedule counts the ticks of one probe.
type schedule struct {
	ticks, skipped atomic.Int32
	enough         int32
	done           func()
}

func (s *schedule) Tick(*worker.Tick) {
	if s.ticks.Add(1) == s.enough {
		s.done()
	}
}
func (s *schedule) Skipped(_ worker.SkipReason, n int) { s.skipped.Add(int32(n)) }
func (s *schedule) Close()                             {}

// always is a container with this ID that is always running.
type always string

func (a always) State() worker.State {
	return worker.State{Found: true, ContainerID: string(a), Running: true, StartedAt: time.Now().Add(-time.Hour), Started: true}
}

// TestHostileProcessesDelayNoOthers runs native probes together with all hostile programs.
func TestHostileProcessesDelayNoOthers(t *testing.T) {
	const natives, period, ticks = 50, time.Second, 3
	schedules := make(schedulesByUID)
	g, err := group.New[string](group.Config{Logger: slog.New(slog.DiscardHandler), Observers: []worker.Observer{schedules}})
	if err != nil {
		t.Fatal(err)
	}
	start := func(name string, i int, h probe.Handler, period time.Duration, s *schedule) {
		id := fmt.Sprint(name, i)
		schedules[id] = s
		err := g.Add(id, group.Probe{
			Spec: probe.Spec{Period: period, Timeout: period, SuccessThreshold: 1, FailureThreshold: 3}, Handler: h, Name: name,
			Task: &worker.Task{Subject: results.Subject{Pod: name, PodUID: id, Container: "web"}, Source: always(id)},
			Kind: probe.Readiness,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	bad := make(map[string]*schedule)
	var all sync.WaitGroup
	for _, name := range hostiles {
		all.Add(1)
		s := &schedule{enough: 3, done: all.Done}
		if name == "hangs at start" { // all ticks are skipped
			all.Done()
		}
		bad[name] = s
		start(name, 0, quarantine.New(hostile(t, name), quarantine.Config{Errors: 1 << 20}), 100*time.Millisecond, s)
	}
	good := make([]*schedule, natives)
	for i := range good {
		all.Add(1)
		good[i] = &schedule{enough: ticks, done: all.Done}
		start("native", i, quick{}, period, good[i])
	}
	all.Wait()
	skipped := int32(0)
	for _, s := range good {
		skipped += s.skipped.Load()
	}
	t.Logf("natives: %d ticks were skipped", skipped) // depends on the machine
	for name, s := range bad {
		t.Logf("%s: %d ticks, %d skipped", name, s.ticks.Load(), s.skipped.Load())
	}
	if err := g.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// schedulesByUID observes probes by the UID of their pod.
type schedulesByUID map[string]*schedule

func (s schedulesByUID) Observe(info worker.Info) worker.ProbeObserver { return s[info.PodUID] }

// quick is a probe that does nothing.
type quick struct{}

func (quick) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
}

// BenchmarkBesideHostileProcesses reports how late 1,000 native probes with a period of 50 ms begin, while
// a hostile program and the garbage collector run. It tests each kind of hostile program in turn.
func BenchmarkBesideHostileProcesses(b *testing.B) {
	const period = 50 * time.Millisecond
	for _, name := range append([]string{"none"}, hostiles...) {
		b.Run("process="+name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			var busy sync.WaitGroup
			if name != "none" {
				h := hostile(b, name)
				busy.Go(func() {
					for ctx.Err() == nil {
						if _, err := attempt(b, h, period); errors.Is(err, probe.ErrNoSlot) {
							runtime.Gosched()
						}
					}
				})
			}
			var lags []time.Duration
			before := cpuTime(b)
			for b.Loop() {
				lags = nativeLags(1000, 10, period)
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.Elapsed()), "cpus")
			cancel()
			busy.Wait()
			b.ReportMetric(float64(lags[len(lags)/2].Microseconds())/1000, "p50-lag-ms")
			b.ReportMetric(float64(lags[len(lags)*99/100].Microseconds())/1000, "p99-lag-ms")
		})
	}
}

// cpuTime returns the processor time of this program.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// nativeLags lets n goroutines wake every period, and returns their delays, sorted.
func nativeLags(n, rounds int, period time.Duration) []time.Duration {
	lags := make(chan time.Duration, n*rounds)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range n {
		due := start.Add(period + time.Duration(i)*period/time.Duration(n))
		wg.Go(func() {
			for range rounds {
				<-time.After(time.Until(due))
				lags <- time.Since(due)
				due = due.Add(period)
			}
		})
	}
	for range rounds {
		runtime.GC()
	}
	wg.Wait()
	close(lags)
	all := make([]time.Duration, 0, n*rounds)
	for lag := range lags {
		all = append(all, lag)
	}
	slices.Sort(all)
	return all
}
