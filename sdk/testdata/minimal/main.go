package main

import (
	"context"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

func main() {}

func init() { sdk.Register(sdk.Func(check)) }

func check(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	return sdk.Successf("connected to %s", conn.RemoteAddr()), conn.Close()
}
