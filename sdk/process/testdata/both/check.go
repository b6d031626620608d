// Both is a plugin that is built as a guest and as a process from one source.
package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

func init() { sdk.Register(check{}) }

type check struct{}

// ValidateConfig implements [sdk.ConfigValidator].
func (check) ValidateConfig(c *sdk.Config) error {
	if c.Int("most", 0) < 0 {
		return errors.New("config.most: must not be negative")
	}
	return nil
}

// Probe implements [sdk.Plugin].
func (check) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	conn, err := r.Dial(ctx)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	if err := conn.Close(); err != nil {
		return probe.Outcome{}, err
	}
	r.Logf(sdk.Info, "connected to %s", r.Addr())
	kept, err := r.KV().Get("n")
	if err != nil {
		return probe.Outcome{}, err
	}
	n, _ := strconv.Atoi(string(kept))
	n++
	if err := r.KV().Set("n", []byte(strconv.Itoa(n))); err != nil {
		return probe.Outcome{}, err
	}
	out := sdk.Successf("connected for the %d. time", n)
	if n > r.Config.Int("most", 1) {
		out.Result = probe.Warning
	}
	out.Metrics = []probe.Metric{{Name: "connects", Value: float64(n)}}
	return out, nil
}
