package plugincmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/cli/oneshot"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/probe"
)

// callee is a loaded plugin to be called many times.
type callee struct {
	call   func(ctx context.Context) (probe.Outcome, time.Duration, error)
	memory func() uint64 // bytes of the last guest
	fuel   func() uint64 // units that all calls consumed
	close  func()

	deadline wasm.Deadline
}

// callee loads the plugin, and prepares it for its target or test case.
func (b *bench) callee(ctx context.Context, isolation plugin.Isolation) (*callee, error) {
	if b.c != nil {
		cfg := plugintest.Config{CacheDir: b.cache, Checks: b.checks, Version: b.env.Version}
		called, err := plugintest.NewBench(ctx, b.c, b.found.Module, b.manifest(isolation), cfg)
		if err != nil {
			return nil, err
		}
		return &callee{called.Call, called.Memory, called.Fuel, called.Close, called.Deadline()}, nil
	}
	host, err := wasm.New(wasm.Config{CacheDir: b.cache, Checks: b.checks, Version: b.env.Version})
	if err != nil {
		return nil, err
	}
	loaded, err := host.Load(ctx, plugin.Found{Module: b.found.Module, Manifest: b.manifest(isolation), Grants: b.input.grants})
	if err != nil {
		_ = host.Close()
		return nil, err
	}
	end := func() { _, _ = loaded.Close(), host.Close() }
	handler, err := loaded.Prepare(b.input.config, b.input.target)
	if err != nil {
		end()
		return nil, b.input.secrets.Error(err)
	}
	handler = b.input.secrets.Handler(handler)
	call := func(ctx context.Context) (probe.Outcome, time.Duration, error) {
		start := time.Now()
		out, err := oneshot.Attempt(ctx, handler, oneshot.Request(b.input.target, b.timeout))
		return out, time.Since(start), err
	}
	memory := func() uint64 { return loaded.Stats().Size }
	fuel := func() uint64 { return loaded.Stats().Fuel }
	return &callee{call, memory, fuel, end, loaded.Deadline()}, nil
}

// sample is the result of one measurement.
type sample struct {
	kind   string // "load=cold", "isolation=reset"
	took   []time.Duration
	memory uint64 // of a guest; 0 for a load
	fuel   uint64 // of a call; 0 for a load, or without fuel
	result string // of the calls

	deadline wasm.Deadline // of the calls
}

// quantile returns the quantile of the durations for a share from 0 to 1.
func (s *sample) quantile(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s.took))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

func (s *sample) mean() time.Duration {
	var sum time.Duration
	for _, d := range s.took {
		sum += d
	}
	return sum / time.Duration(len(s.took))
}

func printSamples(out io.Writer, format, name string, samples []sample) error {
	if format == formatBenchstat {
		return benchstat(out, name, samples)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "PLUGIN\tMEASURED\tTIMES\tP50\tP99\tMEAN\tMEMORY\tDEADLINE\tFUEL\tRESULT")
	for _, s := range samples {
		memory, fuel := "-", "-"
		if s.memory > 0 {
			memory = byteSize(s.memory)
		}
		if s.fuel > 0 {
			fuel = strconv.FormatUint(s.fuel, 10)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, s.kind, len(s.took), short(s.quantile(0.5)), short(s.quantile(0.99)), short(s.mean()),
			memory, cmp.Or(s.deadline, "-"), fuel, cmp.Or(s.result, "-"))
	}
	return w.Flush()
}

// short rounds d to about three digits.
func short(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}

// benchstat writes samples in the format of `go test -bench`.
func benchstat(out io.Writer, name string, samples []sample) error {
	fmt.Fprintf(out, "goos: %s\ngoarch: %s\n", runtime.GOOS, runtime.GOARCH)
	for _, s := range samples {
		line := fmt.Sprintf("BenchmarkPlugin/name=%s/%s %d %d ns/op %d p50-ns %d p99-ns",
			name, s.kind, len(s.took), s.mean().Nanoseconds(), s.quantile(0.5).Nanoseconds(), s.quantile(0.99).Nanoseconds())
		if s.memory > 0 {
			line += fmt.Sprintf(" %.4g MiB", float64(s.memory)/(1<<20))
		}
		if s.fuel > 0 {
			line += fmt.Sprintf(" %d fuel/op", s.fuel)
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}
