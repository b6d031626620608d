// Command embed is a small platform agent around prober's core. Its containers are goroutines on a
// network inside the process. agent.go is the agent: it publishes statuses, and applies results.
// handlers.go registers handlers and plugins, backlog.go is a custom handler, and fabric.go a custom
// dialer for all handlers; demo.go is the pod.
//
//	go run . [plugin.wasm]
//
// The folders services and registrar have agents without Kubernetes.
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

// run runs one pod until ctx ends, and prints the decided results of its probes.
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
