package wasm_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// BenchmarkCall is one attempt with a deadline, by the guest's language and the
// isolation. The Go guest reads its request; neither dials.
func BenchmarkCall(b *testing.B) {
	hello, err := buildGo(b.TempDir(), "./testdata/hello")
	if err != nil {
		b.Fatal(err)
	}
	for lang, module := range map[string][]byte{"go": hello, "wat": guestFile(b, "ok")} {
		for _, isolation := range []plugin.Isolation{plugin.Reset, plugin.Fresh} {
			b.Run(fmt.Sprintf("lang=%s/isolation=%s", lang, isolation), func(b *testing.B) {
				m := plugin.Minimal(lang)
				m.Isolation = isolation
				p, err := host.Load(b.Context(), module, m)
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				h := bind(b, p, `{}`, probe.Target{})
				req := probe.Request{Spec: probe.Spec{Timeout: time.Minute}}
				ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
				defer cancel()
				b.ReportAllocs()
				for b.Loop() {
					if out, err := h.Probe(ctx, req); err != nil || out.Result != probe.Success {
						b.Fatal(out, err)
					}
				}
			})
		}
	}
}

// BenchmarkLoad is loading a Go guest: from the disk cache of another host, as when
// the agent starts again.
func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	hello, err := buildGo(dir, "./testdata/hello")
	if err != nil {
		b.Fatal(err)
	}
	load := func() {
		h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(dir, "cache")})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := h.Load(b.Context(), hello, plugin.Minimal("go")); err != nil {
			b.Fatal(err)
		}
		if err := h.Close(); err != nil {
			b.Fatal(err)
		}
	}
	load() // fills the cache
	for b.Loop() {
		load()
	}
}

// BenchmarkDeadline reports how late attempts end whose guests would not end at all.
func BenchmarkDeadline(b *testing.B) {
	const timeout = 20 * time.Millisecond
	for _, name := range []string{"spin", "sleep", "poll", "hang"} {
		b.Run("guest="+name, func(b *testing.B) {
			p := load(b, host, name, plugin.Reset)
			target := blackHole(b)
			var late []time.Duration
			for b.Loop() {
				start := time.Now()
				if out, err := attempt(b, p, probe.Request{Target: target}, timeout); err != nil || out.Reason != probe.ReasonDeadline {
					b.Fatal(out, err)
				}
				late = append(late, time.Since(start)-timeout)
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-late-µs")
			b.ReportMetric(float64(late[len(late)-1].Microseconds()), "max-late-µs")
		})
	}
}
