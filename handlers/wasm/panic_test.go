package wasm_test

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// wantNothingHeld checks that the attempts of p hold no resources of h, and closes h.
func wantNothingHeld(t *testing.T, h *wasm.Host, p *wasm.Handler) {
	t.Helper()
	if got := p.Stats(); got.Busy != 0 {
		t.Fatalf("got %+v, want no instance to be busy", got) // Close would wait for a busy one
	}
	if err := h.Close(); err != nil || h.Memory() != 0 {
		t.Errorf("got %v, and %d bytes are in use", err, h.Memory())
	}
}

// wantFreeSlot checks that an attempt finds a free slot. Otherwise it would wait for 10 ms.
func wantFreeSlot(t *testing.T, h *wasm.Host) {
	t.Helper()
	p := load(t, h, "ok", plugin.Reset)
	for range 100 {
		start := time.Now()
		if _, err := attempt(t, p, probe.Request{}, patience); err != nil {
			t.Error(err)
		}
		if time.Since(start) < 5*time.Millisecond {
			return
		}
	}
	t.Error("no slot is free")
}

// panics makes an attempt that must panic.
func panics(t *testing.T, p probe.Handler, req probe.Request) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("the attempt did not panic")
		}
	}()
	_, _ = attempt(t, p, req, 5*time.Second)
}

func TestPanicOfTracerKeepsNothing(t *testing.T) {
	h := dialHost(t, nil)
	p, err := h.Load(t.Context(), plugin.Found{Module: assemble(t, `(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\08\00\00\00")
  (data (i32.const 16) "half a l")
  (func (export "probe") (result i32) i32.const 1 i32.const 0 i32.const 1 i32.const 8 call $write drop i32.const 0))`), Manifest: plugin.Minimal("half")})
	if err != nil {
		t.Fatal(err)
	}
	for range runtime.GOMAXPROCS(0) {
		panics(t, p, probe.Request{Debug: true, Trace: func(probe.TraceEvent) { panic("fragile") }})
	}
	wantFreeSlot(t, h)
	wantNothingHeld(t, h, p)
}

// TestFaultsOfEmbedderKeepNothing has functions of the embedder that return nil or panic. The attempt
// must end with an error of the guest or a panic, and leave no connection open.
func TestFaultsOfEmbedderKeepNothing(t *testing.T) {
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, nil }
	for name, c := range map[string]struct {
		url    string
		config func(peer net.Conn) wasm.Config
		panics bool
		want   string
	}{
		"DialContext returns nothing": {"tcp://", func(net.Conn) wasm.Config {
			return wasm.Config{DialContext: dial}
		}, false, "DialContext returned neither a connection nor an error"},
		"Handshake returns nothing": {"tls://", func(peer net.Conn) wasm.Config {
			return wasm.Config{
				DialContext: func(context.Context, string, string) (net.Conn, error) { return peer, nil },
				Handshake:   func(context.Context, net.Conn, *tls.Config) (net.Conn, error) { return nil, nil },
			}
		}, false, "tls: the handshake returned neither a connection nor an error"},
		"Handshake panics": {"tls://", func(peer net.Conn) wasm.Config {
			return wasm.Config{
				DialContext: func(context.Context, string, string) (net.Conn, error) { return peer, nil },
				Handshake:   func(context.Context, net.Conn, *tls.Config) (net.Conn, error) { panic("a villain") },
			}
		}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			h, err := wasm.New(c.config(ours))
			if err != nil {
				t.Fatal(err)
			}
			p := load(t, h, "dialurl", plugin.Reset)
			target := probe.Target{Host: "10.0.0.7", Port: 80}
			out, err := attempt(t, bind(t, p, `{"url":"`+c.url+`"}`, target), probe.Request{Target: target}, 5*time.Second)
			if c.panics != (err != nil) || out.Output != c.want {
				t.Errorf("got %+v, %v; want %q", out, err, c.want)
			}
			if c.url == "tls://" {
				if _, err := theirs.Read(make([]byte, 1)); err == nil { // returns when the other end is closed
					t.Error("read something")
				}
			}
			wantNothingHeld(t, h, p)
		})
	}
}
