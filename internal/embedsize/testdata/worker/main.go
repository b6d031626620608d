// Worker embeds core/worker with a handler of its own.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

func main() {
	cache := results.New(probe.Liveness)
	shared := &worker.Shared{AgentStart: time.Now()}
	shared.Results[probe.Liveness] = cache
	task := &worker.Task{Subject: results.Subject{Container: "own"}}
	task.SetState(worker.Running("1", time.Now()))
	w := worker.New(shared, worker.Config{
		Task:  task,
		Kind:  probe.Liveness,
		Setup: worker.Setup{Handler: probe.HandlerFunc(own), Name: "own", Spec: probe.Spec{Period: time.Second, SuccessThreshold: 1, FailureThreshold: 3}},
	})
	w.Start()
	for u := range results.Subscribe(context.Background(), cache) {
		fmt.Println(u.ContainerID, u.Result)
	}
}

func own(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
}
