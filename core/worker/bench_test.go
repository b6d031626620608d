package worker_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// BenchmarkSchedule measures the processor time of a tick of a handler that does nothing, how late
// ticks begin, and the memory of a worker. One iteration is the whole measurement.
func BenchmarkSchedule(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("probes=%d", n), func(b *testing.B) {
			shared := &worker.Shared{AgentStart: time.Now(), Observers: []worker.Observer{discard{}}}
			for _, k := range probe.Kinds {
				shared.Results[k] = results.New(k)
			}
			log := &lagLog{all: make([]int64, 0, 4*n)}
			before := heapBytes()
			workers := make([]*worker.Worker, n)
			for i := range workers {
				task := &worker.Task{Subject: results.Subject{Pod: "p", Container: "c"}}
				task.SetState(worker.State{Found: true, ContainerID: fmt.Sprint(i), Running: true, Started: true})
				w := worker.New(shared, worker.Config{
					Setup: worker.Setup{
						Spec:    probe.Spec{Period: time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3},
						Handler: log, Name: "noop",
					},
					Task: task, Kind: probe.Readiness, Delay: time.Duration(i) * time.Second / time.Duration(n),
				})
				w.Start()
				workers[i] = w
			}
			time.Sleep(1500 * time.Millisecond)
			cpu, start, ticks := usage(), time.Now(), log.ticks.Load()
			time.Sleep(4 * time.Second)
			used, took, ran := usage()-cpu, time.Since(start), log.ticks.Load()-ticks
			bytes := heapBytes() - before
			for _, w := range workers {
				w.Stop()
			}
			b.ReportMetric(float64(bytes)/float64(n), "bytes/probe")
			b.ReportMetric(used.Seconds()/took.Seconds(), "cores")
			b.ReportMetric(float64(used)/float64(ran), "cpu-ns/tick")
			b.ReportMetric(float64(ran)/took.Seconds(), "ticks/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

type discard struct{}

func (discard) Observe(worker.Info) worker.ProbeObserver { return discard{} }
func (discard) Tick(*worker.Tick)                        {}
func (discard) Skipped(worker.SkipReason, int)           {}
func (discard) Close()                                   {}

type lagLog struct {
	ticks atomic.Int64
	all   []int64
}

func (l *lagLog) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	l.ticks.Add(1)
	return probe.Outcome{Result: probe.Success}, nil
}

func usage() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func heapBytes() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc + s.StackInuse)
}

var _ = slices.Sort[[]int]
