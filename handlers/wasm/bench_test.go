package wasm_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// BenchmarkCall measures one attempt with a deadline, for each language of the guest and each
// isolation. The guests read their config and do not dial. C needs clang. For comparison, lang=bare
// calls a guest through wazero alone, and lang=process starts a process.
func BenchmarkCall(b *testing.B) {
	guests := []benchGuest{{"wat", guestFile(b, "ok")}, {"go", helloGo(b)}}
	if c := helloC(b); c != nil {
		guests = append(guests, benchGuest{"c", c})
	}
	for _, guest := range guests {
		for _, isolation := range []plugin.Isolation{plugin.Pooled, plugin.Reset, plugin.Fresh} {
			b.Run(fmt.Sprintf("lang=%s/isolation=%s", guest.lang, isolation), func(b *testing.B) {
				m := plugin.Minimal(guest.lang)
				m.Isolation, m.Stateful = isolation, isolation == plugin.Pooled
				p, err := host.Load(b.Context(), plugin.Found{Module: guest.module, Manifest: m})
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				benchProbe(b, bind(b, p, `{}`, probe.Target{}))
			})
		}
	}
	b.Run("lang=bare", func(b *testing.B) { benchBare(b, guestFile(b, "ok")) })
	b.Run("lang=process", benchProcess)
}

type benchGuest struct {
	lang   string
	module []byte
}

func benchProbe(b *testing.B, h probe.Handler) {
	req := probe.Request{Spec: probe.Spec{Timeout: time.Minute}}
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		if out, err := h.Probe(ctx, req); err != nil || out.Result != probe.Success {
			b.Fatal(out, err)
		}
		cancel()
	}
}

// benchBare calls a guest through wazero alone: no deadline, no reset, and a host function
// that does nothing.
func benchBare(b *testing.B, module []byte) {
	r := wazero.NewRuntime(b.Context())
	defer r.Close(b.Context())
	_, err := r.NewHostModuleBuilder(abi.ModuleCore).NewFunctionBuilder().
		WithFunc(func(context.Context, uint32, uint32) {}).Export("message").Instantiate(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	guest, err := r.Instantiate(b.Context(), module)
	if err != nil {
		b.Fatal(err)
	}
	fn := guest.ExportedFunction(abi.ExportProbe)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fn.Call(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// benchProcess starts a native program and reads its output, as an exec probe does.
func benchProcess(b *testing.B) {
	for b.Loop() {
		if _, err := exec.CommandContext(b.Context(), "/bin/true").CombinedOutput(); err != nil {
			b.Fatal(err)
		}
	}
}

func helloGo(b *testing.B) []byte {
	module, err := buildGo(b.TempDir(), "./testdata/hello")
	if err != nil {
		b.Fatal(err)
	}
	return module
}

// helloC returns nil if there is no clang for wasm32.
func helloC(b *testing.B) []byte {
	out := filepath.Join(b.TempDir(), "hello.wasm")
	cmd := exec.Command("clang", "--target=wasm32", "-nostdlib", "-O2", "-Wl,--no-entry", "-I../../sdk/c", "-o", out, "testdata/hello.c")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Logf("lang=c is left out: %v %s", err, text)
		return nil
	}
	module, err := os.ReadFile(out)
	if err != nil {
		b.Fatal(err)
	}
	return module
}

// BenchmarkLoad loads a Go guest from the disk cache, as a restarted agent does.
func BenchmarkLoad(b *testing.B) {
	dir, hello := b.TempDir(), helloGo(b)
	load := func() {
		h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(dir, "cache")})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := h.Load(b.Context(), plugin.Found{Module: hello, Manifest: plugin.Minimal("go")}); err != nil {
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

// BenchmarkDeadline reports how long after the deadline attempts end if the guest never returns.
func BenchmarkDeadline(b *testing.B) {
	for _, name := range []string{"spin", "sleep", "poll", "hang"} {
		b.Run("guest="+name, func(b *testing.B) {
			benchLateness(b, load(b, host, name, plugin.Reset), probe.Request{Target: blackHole(b)})
		})
	}
}

// benchLateness makes attempts of a guest that never returns.
func benchLateness(b *testing.B, p *wasm.Handler, req probe.Request) {
	const timeout = 20 * time.Millisecond
	var late []time.Duration
	for b.Loop() {
		start := time.Now()
		if out, err := attempt(b, p, req, timeout); err != nil || out.Reason != probe.ReasonDeadline {
			b.Fatal(out, err)
		}
		late = append(late, time.Since(start)-timeout)
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-late-µs")
	b.ReportMetric(float64(late[len(late)-1].Microseconds()), "max-late-µs")
}
