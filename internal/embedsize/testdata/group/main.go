// Group embeds core/group with a handler of its own.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

func main() {
	g, err := group.New[string](group.Config{})
	if err != nil {
		panic(err)
	}
	add(g, "own", probe.HandlerFunc(own), nil)
	for key, update := range g.Subscribe(context.Background()) {
		fmt.Println(key, update.Result)
	}
}

func own(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
}

// add adds a probe of every second.
func add(g *group.Group[string], name string, h probe.Handler, err error) {
	if err != nil {
		panic(err)
	}
	task := &worker.Task{Subject: results.Subject{Container: name}}
	task.SetState(worker.Running("1", time.Now()))
	if err := g.Add("machine", group.Probe{
		Task: task, Kind: probe.Liveness, Handler: h, Name: name,
		Spec: probe.Spec{Period: time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3},
	}); err != nil {
		panic(err)
	}
}
