package process_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// BenchmarkCall measures one attempt with a deadline, for comparison with BenchmarkCall of handlers/wasm.
func BenchmarkCall(b *testing.B) {
	h := bind(b, load(b, process.Config{}), "ok")
	req := probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: time.Minute}}
	call := func(b *testing.B) {
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		if out, err := h.Probe(ctx, req); err != nil || out.Result != probe.Success {
			b.Fatal(out, err)
		}
	}
	b.Run("lang=go/at-a-time=1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call(b)
		}
	})
	b.Run("lang=go/at-a-time=many", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call(b)
			}
		})
	})
}

// BenchmarkStart measures the time from the start of a process until it serves, with and without a known
// digest of the executable.
func BenchmarkStart(b *testing.B) {
	hashed := found()
	hashed.SetModule(tester)
	for name, f := range map[string]plugin.Found{"unknown": found(), "known": hashed} {
		b.Run("digest="+name, func(b *testing.B) {
			for b.Loop() {
				h, err := process.Load(b.Context(), process.Config{}, f)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := h.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkCheck measures one run of a check that does nothing.
func BenchmarkCheck(b *testing.B) {
	dir := checkFolder(b)
	if err := os.WriteFile(filepath.Join(dir, "check_it"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		b.Fatal(err)
	}
	c, err := process.LoadCheck(process.Config{}, checkOf(b, "[check_it]", dir))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for b.Loop() {
		if out, err := attempt(b, c, time.Minute); err != nil || out.Result != probe.Success {
			b.Fatal(out, err)
		}
	}
}
