package endpoint

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// flipping is a handler whose result changes at each attempt, if changes is set.
type flipping struct {
	changes bool
	calls   atomic.Uint64
	all     *atomic.Int64 // attempts of all handlers
}

func (f *flipping) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	defer f.all.Add(1)
	if f.changes && f.calls.Add(1)%2 == 0 {
		return probe.Outcome{Result: probe.Failure, Output: "connection refused"}, nil
	}
	return probe.Outcome{Result: probe.Success}, nil
}

// BenchmarkTicks compares the ticks of 1,000 endpoints of three probes with the ticks of 3,000 probes of a
// group: triggered ticks whose results stay, and ticks that change the decided result. A reader follows the
// changes of both.
func BenchmarkTicks(b *testing.B) {
	const endpoints = 1000
	names := [...]string{"a", "b", "c"}
	spec := probe.Spec{Period: time.Hour, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 1}
	type subject struct {
		add      func(key int, checks []Check) error
		trigger  func(key int, check string) error
		follow   func(ctx context.Context)
		shutdown func(context.Context) error
	}
	subjects := map[string]func() subject{
		"group": func() subject {
			g, err := group.New[int](group.Config{})
			if err != nil {
				b.Fatal(err)
			}
			return subject{
				add: func(key int, checks []Check) error {
					for _, c := range checks {
						t := &worker.Task{Subject: results.Subject{Container: c.Name}}
						t.SetState(worker.Running(fmt.Sprint(key, c.Name), time.Now()))
						if err := g.Add(key, group.Probe{Task: t, Kind: probe.Readiness, Handler: c.Probe.Handler, Spec: c.Probe.Spec}); err != nil {
							return err
						}
					}
					return nil
				},
				trigger: func(key int, check string) error {
					return g.Trigger(group.ID[int]{Key: key, Task: check, Kind: probe.Readiness})
				},
				follow: func(ctx context.Context) {
					for range g.Subscribe(ctx) {
					}
				},
				shutdown: g.Shutdown,
			}
		},
		"set": func() subject {
			s, err := New[int](Config{})
			if err != nil {
				b.Fatal(err)
			}
			return subject{
				add: func(key int, checks []Check) error {
					return s.Put(key, Endpoint[int]{Rule: Rule{AtLeast, 2}, Checks: checks})
				},
				trigger: s.Trigger,
				follow: func(ctx context.Context) {
					for range s.Subscribe(ctx) {
					}
				},
				shutdown: s.Shutdown,
			}
		},
	}
	for _, changes := range []bool{false, true} {
		for _, name := range []string{"group", "set"} {
			b.Run(fmt.Sprintf("changes=%v/subject=%s", changes, name), func(b *testing.B) {
				s := subjects[name]()
				var following sync.WaitGroup
				var attempts atomic.Int64
				for key := range endpoints {
					var checks []Check
					for _, check := range names {
						checks = append(checks, Check{Name: check, Probe: &group.Probe{Handler: &flipping{changes: changes, all: &attempts}, Spec: spec}})
					}
					if err := s.add(key, checks); err != nil {
						b.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(b.Context())
				following.Go(func() { s.follow(ctx) })
				b.ReportAllocs()
				start := attempts.Load()
				for b.Loop() {
					before := attempts.Load()
					for key := range endpoints {
						for _, check := range names {
							if err := s.trigger(key, check); err != nil {
								b.Fatal(err)
							}
						}
					}
					for attempts.Load() < before+3*endpoints*99/100 { // triggers that come together are one tick
						runtime.Gosched()
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(attempts.Load()-start), "ns/tick")
				cancel()
				following.Wait()
				if err := s.shutdown(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
