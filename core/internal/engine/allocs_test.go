package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// TestTickAllocatesNothing counts the allocations of many ticks in real time, with a handler that does
// nothing and with one that reads the deadline of its context. Timers and goroutines are reused, so the few
// allocations of the runtime are far below one for each tick.
func TestTickAllocatesNothing(t *testing.T) {
	const ticks, probes = 5000, 10
	for name, tc := range map[string]struct {
		observers []worker.Observer
		handler   func(context.Context)
		traced    bool
	}{
		"without observers":        {},
		"with observers":           {observers: []worker.Observer{counter{}, counter{}}},
		"traced":                   {traced: true},
		"handler reads a deadline": {handler: func(ctx context.Context) { _, _ = ctx.Deadline() }},
	} {
		t.Run(name, func(t *testing.T) {
			shared := &engine.Shared{Observers: tc.observers, Trace: tc.traced, AgentStart: time.Now()}
			for _, kind := range probe.Kinds {
				shared.Results[kind] = results.New(kind)
			}
			var mu sync.Mutex
			var before, after runtime.MemStats
			n, done := 0, make(chan struct{})
			handler := probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
				req.Trace.Phase("connect", "", time.Now())
				if tc.handler != nil {
					tc.handler(ctx)
				}
				mu.Lock()
				defer mu.Unlock()
				switch n++; n {
				case 1000: // first ticks allocate runners, results and the stall meter
					runtime.ReadMemStats(&before)
				case 1000 + ticks:
					runtime.ReadMemStats(&after)
					close(done)
				}
				return probe.Outcome{Result: probe.Success}, nil
			})
			workers := make([]*engine.Worker, probes)
			for i := range workers {
				task := &worker.Task{}
				task.SetState(worker.Running(fmt.Sprint(i), time.Now()))
				workers[i] = engine.New(shared, engine.Config{
					Setup: engine.Setup{
						Spec:    probe.Spec{Period: 50 * time.Microsecond, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 1},
						Handler: handler, Name: "noop",
					},
					Task: task, Kind: probe.Readiness,
				})
				workers[i].Start()
			}
			<-done
			for _, w := range workers {
				w.Stop()
			}
			shared.Wait()
			// One allocation a tick would be twice as many. On a busy machine more runners are made.
			if allocs := after.Mallocs - before.Mallocs; allocs > ticks/2 {
				t.Errorf("%d allocations in %d ticks", allocs, ticks)
			}
		})
	}
}

// counter is an observer that does nothing.
type counter struct{}

func (counter) Observe(worker.Info) worker.ProbeObserver { return counter{} }
func (counter) Tick(*worker.Tick)                        {}
func (counter) Skipped(worker.SkipReason, int)           {}
func (counter) Close()                                   {}
