package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// growing is a guest that grows its memory by 1 MiB, and returns Unknown if it cannot. Then it
// dials its target, and always returns Failure.
const growing = `(module
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    i32.const 16
    memory.grow
    i32.const 0
    i32.lt_s
    if
    i32.const 3
    return
    end
    i32.const 0
    i32.const 0
    i32.const 0
    call $dial
    drop
    i32.const 2))`

var (
	wellTarget = probe.Request{Target: probe.Target{Host: "10.0.0.7", Port: 1}}
	holeTarget = probe.Request{Target: probe.Target{Host: "10.0.0.9", Port: 1}}
)

// blackHoles is a plugin with a simulated network. Dials to black holes fail when their context ends.
// Other dials fail at once.
type blackHoles struct {
	plugin *wasm.Handler
	began  chan struct{} // receives an item for each dial to a black hole
}

func newBlackHoles(t *testing.T, total uint64, limits plugin.Limits) *blackHoles {
	t.Helper()
	g := &blackHoles{began: make(chan struct{}, 100)}
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true, TotalMemory: total,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			if addr == "10.0.0.7:1" {
				return nil, errors.New("refused")
			}
			g.began <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	g.plugin, err = h.Load(t.Context(), plugin.Found{Module: assemble(t, growing), Manifest: plugin.Minimal("growing"), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// timeOut makes an attempt of b that times out at a black hole.
func (g *blackHoles) timeOut(t *testing.T, b probe.Handler) {
	t.Helper()
	due := newDue(t)
	var passed sync.WaitGroup
	passed.Go(func() {
		<-g.began
		due.pass()
	})
	out, err := b.Probe(due, holeTarget)
	if err != nil || out.Result != probe.Failure {
		t.Fatalf("got %+v, %v, want a timeout", out, err)
	}
	passed.Wait()
}

// occupy starts attempts of n slow probes at a black hole. It returns when each attempt waits there or
// was skipped.
func (g *blackHoles) occupy(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var attempts sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		attempts.Wait()
	})
	var all []probe.Handler
	for range n {
		b := bind(t, g.plugin, `{}`, holeTarget.Target)
		g.timeOut(t, b)
		all = append(all, b)
	}
	for _, b := range all {
		ended := make(chan struct{})
		attempts.Go(func() {
			defer close(ended)
			_, _ = b.Probe(ctx, holeTarget)
		})
		select {
		case <-g.began:
		case <-ended:
		}
	}
}

// TestBlackHolesLeaveMemoryToPromptProbes checks that the quota also counts memory that guests take
// while they run.
func TestBlackHolesLeaveMemoryToPromptProbes(t *testing.T) {
	g := newBlackHoles(t, 4<<20, plugin.Limits{})
	prompt := bind(t, g.plugin, `{}`, wellTarget.Target)
	if got, err := attempt(t, prompt, wellTarget, 5*time.Second); err != nil || got.Result != probe.Failure {
		t.Fatalf("got %+v, %v", got, err)
	}
	g.occupy(t, 8)
	if got, err := attempt(t, prompt, wellTarget, 5*time.Second); err != nil || got.Result != probe.Failure {
		t.Errorf("got %+v, %v, want memory for the prompt probe", got, err)
	}
}

// TestSlowAttemptOfPromptProbe checks that a prompt probe becomes slow after two slow attempts in a
// row, not after one.
func TestSlowAttemptOfPromptProbe(t *testing.T) {
	for slow, wantErr := range map[int]error{1: nil, 2: probe.ErrNoSlot} {
		t.Run(fmt.Sprint(slow), func(t *testing.T) {
			g := newBlackHoles(t, 0, plugin.Limits{Instances: 8})
			prompt := bind(t, g.plugin, `{}`, wellTarget.Target)
			if _, err := attempt(t, prompt, wellTarget, 5*time.Second); err != nil {
				t.Fatal(err)
			}
			for range slow {
				g.timeOut(t, prompt)
			}
			g.occupy(t, 4)
			if _, err := attempt(t, prompt, wellTarget, 5*time.Second); !errors.Is(err, wantErr) {
				t.Errorf("got %v, want %v", err, wantErr)
			}
		})
	}
}
