package group_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// BenchmarkMemory measures the memory of a probe before its first tick, with its share of a task:
// a key has two tasks with probes of all three kinds.
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
