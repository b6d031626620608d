// Manager embeds core/manager with a handler of its own.
package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/probe"
)

func main() {
	var registry handlers.Registry
	if err := registry.Register("own", "this program", probe.HandlerFunc(own)); err != nil {
		panic(err)
	}
	var status manager.StatusStore
	m, err := manager.New(manager.Config{Status: &status, Handlers: &registry})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	if err := m.AddPod(context.Background(), new(v1.Pod)); err != nil {
		panic(err)
	}
	for u := range m.Subscribe(context.Background()) {
		fmt.Println(u.ContainerID, u.Result)
	}
}

func own(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success}, nil
}
