// Command collector runs the OTLP receiver of OpenTelemetry's own collector on ADDRESS. It appends each
// request to FILE, as a line of JSON.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig()
	given := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}})
	if err := given.Unmarshal(cfg); err != nil {
		return err
	}
	settings := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	var mu sync.Mutex
	write := func(line []byte, err error) error {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			_, err = fmt.Fprintf(file, "%s\n", line)
		}
		return err
	}
	metrics, err := consumer.NewMetrics(func(_ context.Context, m pmetric.Metrics) error {
		return write((&pmetric.JSONMarshaler{}).MarshalMetrics(m))
	})
	if err != nil {
		return err
	}
	traces, err := consumer.NewTraces(func(_ context.Context, t ptrace.Traces) error {
		return write((&ptrace.JSONMarshaler{}).MarshalTraces(t))
	})
	if err != nil {
		return err
	}
	forMetrics, err := factory.CreateMetrics(ctx, settings, cfg, metrics)
	if err != nil {
		return err
	}
	if _, err := factory.CreateTraces(ctx, settings, cfg, traces); err != nil { // the same receiver
		return err
	}
	if err := forMetrics.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	<-ctx.Done()
	return forMetrics.Shutdown(context.WithoutCancel(ctx))
}
