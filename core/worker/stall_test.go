package worker_test

import (
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

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

// firstTick prints the result of the first tick.
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

// stalledAgent is the process that is stopped: it runs one probe until its first tick has ended.
func stalledAgent(compat string) {
	shared := &worker.Shared{Results: [3]*results.Cache{}, AgentStart: time.Now()}
	for _, k := range probe.Kinds {
		shared.Results[k] = results.New(k)
	}
	if _, err := fmt.Sscan(compat, &shared.Compat); err != nil {
		panic(err)
	}
	done := firstTick{make(chan struct{})}
	w := worker.New(shared, worker.Config{
		Info:      worker.Info{Kind: probe.Liveness},
		Spec:      probe.Spec{Period: time.Hour, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 1},
		Handler:   slowTarget{},
		Container: &worker.Container{Pod: &probe.Pod{}, Container: &probe.Container{}, Source: runningFor{}},
		Observer:  done,
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
