package otelobserver_test

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics/otelobserver"
	"github.com/daeace23/prober/probe"
)

// BenchmarkTick measures what a tick costs with the SDK.
func BenchmarkTick(b *testing.B) {
	o, err := otelobserver.New(otelobserver.Config{Meter: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())).Meter("test")})
	if err != nil {
		b.Fatal(err)
	}
	s := o.Observe(worker.Info{Subject: results.Subject{Pod: "checkout"}, Kind: probe.Liveness, Handler: "custom"})
	tick := &worker.Tick{Due: time.Now(), Start: time.Now(), End: time.Now(), Handler: "custom", Outcome: probe.Outcome{Result: probe.Success}}
	b.ReportAllocs()
	for b.Loop() {
		s.Tick(tick)
	}
}
