// Command embed is a small platform agent around prober's core. It runs "containers"
// that are goroutines, on a network of its own, and shows what an agent brings along:
// where it learns how containers are doing (agent.go), a handler of its own
// (backlog.go), and the way connections are made (fabric.go), which the built-in
// handlers and WebAssembly plugins use alike.
//
//	go run . [plugin.wasm]
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

// run lets one pod live until ctx ends, and prints what its probes decide.
func run(ctx context.Context, plugins []string) error {
	network := newFabric()
	a, err := newAgent(ctx, network, plugins)
	if err != nil {
		return err
	}
	defer a.Close()
	pod, workload := demoPod(len(plugins) > 0)
	if err := a.Start(ctx, pod, workload); err != nil {
		return err
	}
	for line := range a.Watch(ctx) {
		fmt.Println(line)
	}
	return nil
}
