package wasm_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// TestStacksOfWaitingGuestsAreCounted checks that the memory of all plugins bounds guests that recurse and
// then wait. It takes 3 s, until all guests have their stacks.
func TestStacksOfWaitingGuestsAreCounted(t *testing.T) {
	if interpreter {
		return // its stacks are small
	}
	t.Parallel()
	const total, attempts = 128 << 20, 40
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), TotalMemory: total})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p := load(t, h, "deep", plugin.Reset)
	req := probe.Request{Target: blackHole(t)}
	if _, err := overrun(t, p, req, 100*time.Millisecond); err != nil {
		t.Errorf("alone: %v", err)
	}
	var mu sync.Mutex
	var refused, waited int
	var all sync.WaitGroup
	for range attempts {
		all.Go(func() {
			_, err := attempt(t, p, req, 3*time.Second)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				waited++
			case errors.Is(err, probe.ErrNoSlot), probe.ReasonOf(err) == probe.ReasonMemory && strings.Contains(err.Error(), "its stack takes more memory"):
				refused++
			default:
				t.Error(err)
			}
			if used := h.Memory(); used > total {
				t.Errorf("%d bytes are in use", used)
			}
		})
	}
	all.Wait()
	if t.Logf("%d waited, %d were refused", waited, refused); waited == 0 || refused == 0 {
		t.Errorf("%d waited, %d were refused", waited, refused)
	}
	if used := h.Memory(); used > attempts*64<<10 { // the memory of idle instances
		t.Errorf("%d bytes are still counted", used)
	}
}

// TestStacksOfComputingGuestsAreBounded checks that guests that recurse and compute are ended before all
// have large stacks.
func TestStacksOfComputingGuestsAreBounded(t *testing.T) {
	if interpreter {
		return
	}
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), TotalMemory: 32 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p := load(t, h, "deepspin", plugin.Reset)
	var ended atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := p.Probe(ctx, probe.Request{}); probe.ReasonOf(err) == probe.ReasonMemory && strings.Contains(err.Error(), "its stack takes more memory") {
				ended.Add(1)
			}
		})
	}
	all.Wait()
	if ended.Load() == 0 {
		t.Error("none was ended for its stack")
	}
}

// TestStartFunctionRunsFirst checks that the start function runs once, before all other functions.
func TestStartFunctionRunsFirst(t *testing.T) {
	const source = `(module
		(memory (export "memory") 1)
		(global (mut i32) (i32.const 0))
		(func $first global.get 0 i32.const 5 i32.add global.set 0)
		(func (export "_initialize") global.get 0 i32.const 3 i32.mul i32.const 12 i32.sub global.set 0)
		(func (export "probe") (result i32) global.get 0 i32.const 1 i32.sub)
		(start $first))`
	for _, isolation := range []plugin.Isolation{plugin.Reset, plugin.Fresh} {
		m := plugin.Minimal("start")
		m.Isolation = isolation
		p, err := host.Load(t.Context(), plugin.Found{Module: assemble(t, source), Manifest: m})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := attempt(t, p, probe.Request{}, patience); err != nil || got.Result != probe.Failure {
				t.Errorf("%s: got %+v, %v", isolation, got, err)
			}
		}
		p.Close()
	}
}
