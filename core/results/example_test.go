package results_test

import (
	"context"
	"fmt"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// A reader gets the existing results, and then each change.
func ExampleSubscribe() {
	readiness := results.New(probe.Readiness)
	web := &results.Subject{Pod: "shop", Container: "web"}
	readiness.Set("run-1", results.Failure, web, results.Cause{Reason: results.Initial})

	for u := range results.Subscribe(context.Background(), readiness) {
		fmt.Println(u.Container, u.ContainerID, u.Kind, u.Result, u.Cause)
		if u.Result == results.Success {
			break
		}
		readiness.Set("run-1", results.Success, web, results.Cause{Output: "ready"}) // as the worker of a probe does
	}
	r, ok := readiness.Get("run-1")
	fmt.Println(r, ok)
	// Output:
	// web run-1 readiness Failure {initial }
	// web run-1 readiness Success { ready}
	// Success true
}
