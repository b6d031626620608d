// Hello is the guest of the benchmarks. It reads its request and returns success.
package main

import (
	"context"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

func main() {}

func init() { sdk.Register(sdk.Func(hello)) }

func hello(_ context.Context, r *sdk.Request) (probe.Outcome, error) {
	return sdk.Successf("hello %s", r.Config.String("name", "world")), nil
}
