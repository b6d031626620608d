//go:build unix

package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// BenchmarkWakeups measures how often the schedule wakes the process, as voluntary context switches, and
// how late ticks are, for different windows. An iteration is four seconds.
func BenchmarkWakeups(b *testing.B) {
	for _, load := range []struct {
		probes int
		period time.Duration
	}{{1000, time.Second}, {100_000, 10 * time.Second}} {
		for _, window := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
			b.Run(fmt.Sprintf("probes=%d/period=%v/window=%v", load.probes, load.period, window), func(b *testing.B) {
				lags := new(lagObserver)
				shared := &engine.Shared{AgentStart: time.Now(), Observers: []worker.Observer{lags}, Window: window}
				if window == 0 {
					shared.Compat = probe.CompatExactTimer
				}
				for _, k := range probe.Kinds {
					shared.Results[k] = results.New(k)
				}
				handler := probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
					return probe.Outcome{Result: probe.Success}, nil
				})
				workers := make([]*engine.Worker, load.probes)
				for at, i := range rand.Perm(load.probes) {
					workers[at] = startIdleEvery(shared, handler, i, load.probes, load.period)
				}
				time.Sleep(load.period + 500*time.Millisecond) // first ticks cost more
				var used, took time.Duration
				var wakes int64
				lags.take()
				for b.Loop() {
					cpu, woken, start := usage(), switches(), time.Now()
					time.Sleep(4 * time.Second)
					used, wakes, took = used+usage()-cpu, wakes+switches()-woken, took+time.Since(start)
				}
				all := lags.take()
				for _, w := range workers {
					w.Stop()
				}
				slices.Sort(all)
				b.ReportMetric(100*used.Seconds()/took.Seconds(), "cpu%")
				b.ReportMetric(float64(wakes)/took.Seconds(), "wakeups/s")
				b.ReportMetric(float64(len(all))/took.Seconds(), "ticks/s")
				b.ReportMetric(float64(all[len(all)*99/100])/1e6, "lag-p99-ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func startIdleEvery(shared *engine.Shared, h probe.Handler, i, n int, period time.Duration) *engine.Worker {
	task := &worker.Task{Subject: results.Subject{Pod: "p", Container: "c"}}
	task.SetState(worker.Running(fmt.Sprint(i), time.Now()))
	w := engine.New(shared, engine.Config{
		Setup: engine.Setup{
			Spec:    probe.Spec{Period: period, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3},
			Handler: h, Name: "noop",
		},
		Task: task, Kind: probe.Readiness, Delay: time.Duration(i) * period / time.Duration(n),
	})
	w.Start()
	return w
}

// lagObserver records how late ticks are.
type lagObserver struct {
	discard
	mu  sync.Mutex
	all []time.Duration
}

func (l *lagObserver) Observe(worker.Info) worker.ProbeObserver { return l }

func (l *lagObserver) Tick(t *worker.Tick) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, t.Start.Sub(t.Due))
}

func (l *lagObserver) take() (all []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, l.all = l.all, nil
	return all
}

func switches() int64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return int64(r.Nvcsw)
}
