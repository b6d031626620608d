//go:build unix

package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// BenchmarkSchedule measures the processor time of a tick whose handler does nothing, and the memory of a
// worker. An iteration is four seconds of ticks.
func BenchmarkSchedule(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("probes=%d", n), func(b *testing.B) {
			shared := &engine.Shared{AgentStart: time.Now(), Observers: []worker.Observer{discard{}}}
			for _, k := range probe.Kinds {
				shared.Results[k] = results.New(k)
			}
			var ticks atomic.Int64
			handler := probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
				ticks.Add(1)
				return probe.Outcome{Result: probe.Success}, nil
			})
			before := heapBytes()
			workers := make([]*engine.Worker, n)
			for at, i := range rand.Perm(n) { // neighbors in memory are not due one after the other
				workers[at] = startIdle(shared, handler, i, n)
			}
			time.Sleep(1500 * time.Millisecond)
			bytes := heapBytes() - before
			var used, took time.Duration
			var ran int64
			for b.Loop() {
				cpu, start, first := usage(), time.Now(), ticks.Load()
				time.Sleep(4 * time.Second)
				used, took, ran = used+usage()-cpu, took+time.Since(start), ran+ticks.Load()-first
			}
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

// startIdle starts worker i of n, with a period of one second.
func startIdle(shared *engine.Shared, h probe.Handler, i, n int) *engine.Worker {
	task := &worker.Task{Subject: results.Subject{Pod: "p", Container: "c"}}
	task.SetState(worker.Running(fmt.Sprint(i), time.Now()))
	w := engine.New(shared, engine.Config{
		Setup: engine.Setup{
			Spec:    probe.Spec{Period: time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3},
			Handler: h, Name: "noop",
		},
		Task: task, Kind: probe.Readiness, Delay: time.Duration(i) * time.Second / time.Duration(n),
	})
	w.Start()
	return w
}

type discard struct{}

func (discard) Observe(worker.Info) worker.ProbeObserver { return discard{} }
func (discard) Tick(*worker.Tick)                        {}
func (discard) Skipped(worker.SkipReason, int)           {}
func (discard) Close()                                   {}

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
