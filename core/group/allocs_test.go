package group_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// TestTickAllocatesNothing counts the allocations of many ticks in real time, also with a full history.
// Package metrics has its own test.
func TestTickAllocatesNothing(t *testing.T) {
	const ticks, probes = 5000, 20
	for name, cfg := range map[string]group.Config{
		"last tick only": {},
		"history":        {History: 1 << 16},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := group.New[int](cfg)
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var before, after runtime.MemStats
			n, done := 0, make(chan struct{})
			handler := probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
				req.Trace.Phase("connect", "", time.Now())
				req.Trace.Phase("first byte", "", time.Now())
				mu.Lock()
				defer mu.Unlock()
				switch n++; n {
				case 1000: // until then histories fill
					runtime.ReadMemStats(&before)
				case 1000 + ticks:
					runtime.ReadMemStats(&after)
					close(done)
				}
				return probe.Outcome{Result: probe.Success, Output: "ok"}, nil
			})
			for i := range probes {
				p := newProbe()
				p.Task.SetState(worker.Running(fmt.Sprint(i), time.Now()))
				p.Handler, p.Spec.Period = handler, time.Millisecond
				if err := g.Add(i, p); err != nil {
					t.Fatal(err)
				}
			}
			<-done
			if err := g.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if allocs := after.Mallocs - before.Mallocs; allocs > ticks/20 {
				t.Errorf("%d allocations in %d ticks", allocs, ticks)
			}
		})
	}
}
