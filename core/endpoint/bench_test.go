package endpoint

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

// nothing is a handler without a state.
type nothing struct{}

func (nothing) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
}

// slow makes no attempt, so that the bytes do not depend on the number of ticks under way.
var slow = probe.Spec{InitialDelay: time.Hour, Period: time.Hour, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMemory compares 100,000 endpoints of three probes with 300,000 probes of a group.
func BenchmarkMemory(b *testing.B) {
	const endpoints = 100_000
	b.Run("subject=group", func(b *testing.B) {
		for b.Loop() {
			before := heapBytes()
			g, err := group.New[int](group.Config{})
			if err != nil {
				b.Fatal(err)
			}
			for i := range endpoints {
				for c := range 3 {
					t := &worker.Task{Subject: results.Subject{Container: [...]string{"a", "b", "c"}[c]}}
					t.SetState(worker.Running(fmt.Sprintf("%d/%d", i, c), time.Now()))
					if err := g.Add(i, group.Probe{Task: t, Kind: probe.Readiness, Handler: nothing{}, Spec: slow}); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(heapBytes()-before)/(3*endpoints), "B/probe")
			if err := g.Shutdown(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("subject=set", func(b *testing.B) {
		for b.Loop() {
			before := heapBytes()
			s, err := New[int](Config{})
			if err != nil {
				b.Fatal(err)
			}
			for i := range endpoints {
				e := Endpoint[int]{Rule: Rule{AtLeast, 2}}
				for _, name := range []string{"a", "b", "c"} {
					e.Checks = append(e.Checks, Check{Name: name, Probe: &group.Probe{Handler: nothing{}, Spec: slow}})
				}
				if err := s.Put(i, e); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(heapBytes()-before)/(3*endpoints), "B/probe")
			if err := s.Shutdown(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReport is a pushed result of one of 10,000 endpoints.
func BenchmarkReport(b *testing.B) {
	s, err := New[int](Config{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		if err := s.Put(i, Endpoint[int]{Checks: pushed("push")}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := s.Report(i%10_000, "push", probe.Outcome{Result: probe.Success}); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Shutdown(b.Context()); err != nil {
		b.Fatal(err)
	}
}
