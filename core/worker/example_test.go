package worker_test

import (
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// first is an observer that prints the first tick of a probe.
type first struct {
	info worker.Info
	told chan<- string
}

func (f first) Tick(t *worker.Tick) { // must not block, and must not keep t
	text := fmt.Sprintln(f.info.Container, f.info.Kind, t.Handler, t.Outcome.Result, t.Before, "->", t.After)
	select {
	case f.told <- text:
	default:
	}
}

func (f first) Skipped(worker.SkipReason, int) {}
func (f first) Close()                         {}

// observer observes all probes.
type observer chan string

func (o observer) Observe(info worker.Info) worker.ProbeObserver { return first{info, o} }

// An observer gets every tick, including those that change no result.
func ExampleObserver() {
	o := make(observer, 1)
	g, err := group.New[string](group.Config{Observers: []worker.Observer{o}})
	if err != nil {
		panic(err)
	}
	defer g.Shutdown(context.Background())

	task := &worker.Task{Subject: results.Subject{Pod: "shop", Container: "web"}}
	task.SetState(worker.Running("shop/web/1", time.Now())) // and worker.Stopped when it has stopped
	err = g.Add("shop", group.Probe{Task: task, Kind: probe.Readiness, Spec: probe.Spec{Period: 10 * time.Millisecond}, Name: "custom", Handler: probe.HandlerFunc(
		func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{Result: probe.Success}, nil
		},
	)})
	if err != nil {
		panic(err)
	}
	fmt.Print(<-o)
	// Output: web readiness custom success Failure -> Success
}
