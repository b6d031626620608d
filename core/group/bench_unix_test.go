//go:build unix

package group_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// BenchmarkMemory measures the memory of a probe before its first tick, including its share of a task. A
// key has two tasks with probes of all three kinds.
func BenchmarkMemory(b *testing.B) {
	const keys = 2000
	probes := keys * 2 * len(probe.Kinds)
	b.Run(fmt.Sprintf("probes=%d", probes), func(b *testing.B) {
		var bytes int64
		for b.Loop() {
			names := namesOf(keys)
			before := live()
			g := filled(b, names)
			bytes += live() - before
			if err := g.Shutdown(context.Background()); err != nil {
				b.Fatal(err)
			}
			runtime.KeepAlive(names)
		}
		b.ReportMetric(float64(bytes)/float64(b.N*probes), "bytes/probe")
	})
}

func namesOf(keys int) (names []string) {
	for i := range keys {
		names = append(names, fmt.Sprint("key-", i))
	}
	return names
}

// live returns the bytes of the live heap.
func live() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// filled returns a group with six probes for each key.
func filled(b *testing.B, keys []string) *group.Group[string] {
	g, err := group.New[string](group.Config{})
	if err != nil {
		b.Fatal(err)
	}
	handler := probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Result: probe.Success}, nil
	})
	for _, key := range keys {
		for _, name := range [...]string{"app", "side"} {
			task := &worker.Task{Subject: results.Subject{Pod: key, Container: name}}
			for _, kind := range probe.Kinds {
				p := group.Probe{Task: task, Kind: kind, Handler: handler, Name: "none", Spec: probe.Spec{Period: time.Hour}}
				if err := g.Add(key, p); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	return g
}

// BenchmarkTick measures the processor time of a tick whose handler has three phases, with and without a
// history of an agent's size. An iteration is two seconds of ticks.
func BenchmarkTick(b *testing.B) {
	for _, history := range []int64{0, 16 << 20} {
		b.Run(fmt.Sprintf("history=%d", history), func(b *testing.B) {
			g, err := group.New[int](group.Config{History: history})
			if err != nil {
				b.Fatal(err)
			}
			var ticks atomic.Int64
			handler := probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
				ticks.Add(1)
				for _, name := range [...]string{"connect", "first byte", "body"} {
					req.Trace.Emit(probe.TraceEvent{Type: probe.TracePhase, Name: name, Duration: time.Millisecond})
				}
				return probe.Outcome{Result: probe.Success, Output: "ok"}, nil
			})
			for i := range 20_000 {
				p := newProbe()
				p.Task.SetState(worker.Running(fmt.Sprint(i), time.Now()))
				p.Handler, p.Spec.Period = handler, 250*time.Millisecond
				if err := g.Add(i, p); err != nil {
					b.Fatal(err)
				}
			}
			time.Sleep(6 * time.Second) // histories fill
			var used time.Duration
			var ran int64
			for b.Loop() {
				cpu, first := processorTime(), ticks.Load()
				time.Sleep(2 * time.Second)
				used, ran = used+processorTime()-cpu, ran+ticks.Load()-first
			}
			if err := g.Shutdown(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(used)/float64(ran), "cpu-ns/tick")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processorTime returns the processor time of the process.
func processorTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
