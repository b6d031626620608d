package group_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// A program probes whether a service is ready, and follows the result.
func Example() {
	starting := 2 // the first two attempts fail
	handler := probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		if starting--; starting >= 0 {
			return probe.Outcome{Result: probe.Failure, Output: "starting"}, nil
		}
		return probe.Outcome{Result: probe.Success, Output: "ready"}, nil
	})
	g, err := group.New[string](group.Config{})
	if err != nil {
		panic(err)
	}
	defer g.Shutdown(context.Background())

	task := &worker.Task{Subject: results.Subject{Pod: "checkout", Container: "web"}}
	task.SetState(worker.Running("checkout/web/1", time.Now()))
	err = g.Add("checkout", group.Probe{
		Task: task, Kind: probe.Readiness, Handler: handler, Name: "custom", Spec: probe.Spec{Period: 10 * time.Millisecond},
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("not ready"))
	defer cancel()
	for key, u := range g.Subscribe(ctx) {
		if u.Result == results.Success { // the initial result is a Failure with the reason "initial"
			fmt.Println(key, u.Kind, u.Result, u.Output)
			break
		}
	}
	// Output: checkout readiness Success ready
}
