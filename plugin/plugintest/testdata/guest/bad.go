package main

import (
	"context"
	"io"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// misbehave does things that a plugin must not do.
func misbehave(ctx context.Context, r *sdk.Request) (out probe.Outcome, err error, done bool) {
	switch r.Config.String("do", "") {
	case "colour":
		writeResult(`{"message":"it is red","colour":"red"}`)
		return probe.Outcome{Result: probe.Success}, nil, true
	case "late":
		return late(ctx, r), nil, true
	case "elsewhere":
		_, err := sdk.Dial(ctx, "tcp", "10.0.0.9:80")
		return sdk.Failuref("%v", err), nil, true
	}
	return out, nil, false
}

// late continues after its deadline, with every function of the host.
func late(ctx context.Context, r *sdk.Request) probe.Outcome {
	if conn, err := sdk.Dial(ctx, "tcp", r.Addr()); err == nil {
		_, _ = conn.Read(make([]byte, 1))
		_, _ = io.WriteString(conn, "late\n")
	}
	over := context.Background()
	_, _ = sdk.Dial(over, "tcp", "10.0.0.9:80")
	_, _ = sdk.Dial(over, "udp", r.Addr())
	page, size := pointer([]byte(`{"url":"http:///late"}`))
	httpDo(page, size, nil, 0)
	name, size := pointer([]byte(`{"name":"late.internal"}`))
	dnsLookup(name, size, 0)
	return sdk.Successf("all the same")
}
