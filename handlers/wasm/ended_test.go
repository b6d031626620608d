package wasm_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// endedContext is a context that ends without closing a channel: only Err reports the end.
type endedContext struct {
	context.Context
	ended *atomic.Bool
	err   error
}

func (endedContext) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }

func (c endedContext) Err() error {
	if c.ended.Load() {
		return c.err
	}
	return nil
}

// TestGuestReachesNothingAfterDeadline checks that a host call after the deadline has no effect, even if
// the guest has not been ended yet.
func TestGuestReachesNothingAfterDeadline(t *testing.T) {
	for name, tc := range map[string]struct {
		isolation plugin.Isolation
		trace     probe.Tracer
		err       error
		idle      int
	}{
		"fresh":            {isolation: plugin.Fresh, err: context.DeadlineExceeded},
		"pooled":           {isolation: plugin.Pooled, err: context.DeadlineExceeded},
		"reset":            {isolation: plugin.Reset, err: context.DeadlineExceeded, idle: 1},
		"traced":           {isolation: plugin.Reset, trace: func(probe.TraceEvent) {}, err: context.DeadlineExceeded, idle: 1},
		"fresh, cancelled": {isolation: plugin.Fresh, err: context.Canceled},
		"reset, cancelled": {isolation: plugin.Reset, err: context.Canceled, idle: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var ended atomic.Bool
			dials := 0
			h, err := wasm.New(wasm.Config{
				CacheDir: testCache(scratch), Interpreter: interpreter,
				Rand: randHook(func() { ended.Store(true) }),
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					dials++
					return nil, errors.New("no wire")
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			m := plugin.Minimal("dials")
			m.Isolation, m.Stateful = tc.isolation, tc.isolation == plugin.Pooled
			p, err := h.Load(t.Context(), plugin.Found{Module: assemble(t, `(module
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32)
    i32.const 0 i32.const 1 call $random drop
    i32.const 0 i32.const 0 i32.const 0 call $dial drop
    i32.const 0))`), Manifest: m})
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Probe(endedContext{context.Background(), &ended, tc.err}, probe.Request{Target: elsewhere, Spec: probe.Spec{Timeout: time.Minute}, Debug: true, Trace: tc.trace})
			if tc.err == context.DeadlineExceeded {
				wantTimedOut(t, got, err, time.Minute)
			} else if !errors.Is(err, tc.err) {
				t.Errorf("got %+v, %v", got, err)
			}
			if dials != 0 {
				t.Errorf("%d dials", dials)
			}
			if got := p.Stats(); got.Idle != tc.idle || got.Busy != 0 {
				t.Errorf("got %+v, want %d idle", got, tc.idle)
			}
		})
	}
}
