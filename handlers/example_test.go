package handlers_test

import (
	"context"
	"fmt"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/probe"
)

// ExampleRegistry registers a custom handler, and binds it by name.
func ExampleRegistry() {
	queued := 3
	backlog := probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
		if queued > 100 {
			return probe.Outcome{Result: probe.Failure, Output: fmt.Sprint(queued, " jobs wait")}, nil
		}
		return probe.Outcome{Result: probe.Success, Output: fmt.Sprint(queued, " jobs wait")}, nil
	})
	var registry handlers.Registry
	if err := registry.Register("backlog", "this program", backlog); err != nil {
		panic(err)
	}
	h, err := registry.Prepare("backlog", nil, probe.Target{})
	if err != nil {
		panic(err)
	}
	out, err := h.Probe(context.Background(), probe.Request{})
	fmt.Println(out.Result, out.Output, err)

	_, err = registry.Prepare("backlogs", nil, probe.Target{})
	fmt.Println(err)
	// Output:
	// success 3 jobs wait <nil>
	// unknown handler "backlogs"; known: backlog (did you mean "backlog"?)
}
