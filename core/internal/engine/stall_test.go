package engine_test

import (
	"context"
	"fmt"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/daeace23/prober/core/internal/engine"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// The stall meter wakes the agent every 50 ms, but only while an attempt is under way. A timer that fires
// starts a goroutine, so the test counts the goroutines created in ten minutes.
func TestStallMeterBetweenAttempts(t *testing.T) {
	wakeUps := func(r *rig) uint64 {
		before := goroutinesCreated()
		r.wait(10 * time.Minute)
		return goroutinesCreated() - before
	}
	prepared := func(t *testing.T, step probetest.Step) *rig {
		r := newRig(t, probe.Liveness, step)
		r.cfg.Spec.Period, r.cfg.Spec.Timeout = time.Hour, time.Hour
		return r.run()
	}
	bubble(t, "attempt under way wakes the agent", func(t *testing.T) {
		if got := wakeUps(prepared(t, success.After(20*time.Minute))); got < 10_000 {
			t.Errorf("%d wake-ups, want 12000", got)
		}
	})
	bubble(t, "no attempt under way does not", func(t *testing.T) {
		if got := wakeUps(prepared(t, success)); got > 1000 {
			t.Errorf("%d wake-ups", got)
		}
	})
}

func goroutinesCreated() uint64 {
	created := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(created)
	return created[0].Value.Uint64()
}

// slowTarget answers after a third of the timeout of one second.
type slowTarget struct{}

func (slowTarget) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	if req.Attempt == 1 {
		fmt.Println("attempt")
	}
	time.Sleep(300 * time.Millisecond)
	if deadline, _ := ctx.Deadline(); time.Now().After(deadline) {
		<-ctx.Done()
		return probe.Outcome{}, ctx.Err()
	}
	return probe.Outcome{Result: probe.Success}, nil
}

// firstTick is an observer that prints the result of the first tick.
type firstTick struct{ done chan struct{} }

func (f firstTick) Tick(t *worker.Tick) {
	select {
	case <-f.done:
	default:
		fmt.Printf("%v after %d attempts, decided %v\n", t.Outcome.Result, t.Attempts, t.After)
		close(f.done)
	}
}
func (firstTick) Skipped(worker.SkipReason, int) {}
func (firstTick) Close()                         {}

// stalledAgent is the main function of the stopped process: it runs one probe until its first tick has
// ended.
func stalledAgent(compat string) {
	shared := &engine.Shared{Results: [3]*results.Cache{}, AgentStart: time.Now()}
	for _, k := range probe.Kinds {
		shared.Results[k] = results.New(k)
	}
	if _, err := fmt.Sscan(compat, &shared.Compat); err != nil {
		panic(err)
	}
	done := firstTick{make(chan struct{})}
	w := engine.New(shared, engine.Config{
		Setup: engine.Setup{
			Spec:    probe.Spec{Period: time.Hour, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 1},
			Handler: slowTarget{},
		},
		Kind:     probe.Liveness,
		Task:     &worker.Task{Pod: &probe.Pod{}, Container: &probe.Container{}, Source: runningFor{}},
		Observer: done,
	})
	w.Start()
	<-done.done
	w.Stop()
	w.Wait()
}

type runningFor struct{}

func (runningFor) State() worker.State {
	return worker.State{Found: true, ContainerID: "c", Running: true, StartedAt: time.Now().Add(-time.Hour), Started: true}
}
