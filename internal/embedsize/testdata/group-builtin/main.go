// Group-builtin embeds core/group with the four built-in handlers.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/handlers/builtin/grpcprobe"
	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/tcpprobe"
	"github.com/daeace23/prober/probe"
)

func main() {
	g, err := group.New[string](group.Config{})
	if err != nil {
		panic(err)
	}
	run, err := execprobe.New(execprobe.Config{Runner: &execprobe.HostRunner{}})
	if err != nil {
		panic(err)
	}
	h, err := run.Bind(execprobe.Action{Command: []string{"true"}})
	add(g, "exec", h, err)
	h, err = httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Host: "127.0.0.1", Port: 8080, Path: "/healthz"})
	add(g, "http", h, err)
	h, err = tcpprobe.New(tcpprobe.Config{}).Bind(tcpprobe.Action{Host: "127.0.0.1", Port: 6379})
	add(g, "tcp", h, err)
	h, err = grpcprobe.New(grpcprobe.Config{}).Bind(grpcprobe.Action{Host: "127.0.0.1", Port: 50051})
	add(g, "grpc", h, err)
	for key, update := range g.Subscribe(context.Background()) {
		fmt.Println(key, update.Result)
	}
}

// add adds a probe of every second.
func add(g *group.Group[string], name string, h probe.Handler, err error) {
	if err != nil {
		panic(err)
	}
	task := &worker.Task{Subject: results.Subject{Container: name}}
	task.SetState(worker.Running(name, time.Now()))
	if err := g.Add("machine", group.Probe{
		Task: task, Kind: probe.Liveness, Handler: h, Name: name,
		Spec: probe.Spec{Period: time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3},
	}); err != nil {
		panic(err)
	}
}
