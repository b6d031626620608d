package process_test

import (
	"context"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
	"github.com/daeace23/prober/sdk/process"
)

// greets reports whether the target accepts a connection.
func greets(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer conn.Close()
	return sdk.Successf("%s takes connections", r.Addr()), nil
}

// The main function of a plugin that runs as a process.
func ExampleServe() {
	manifest := []byte("apiVersion: prober.dev/v1\nkind: Plugin\nname: greets\nversion: 1.0.0\n") // usually embedded
	process.Serve(sdk.Func(greets), manifest)
}
