package wasm_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// deadlineHook is a context that calls a function when its deadline is read. A load reads it after the
// compilation.
type deadlineHook struct {
	context.Context
	deadline func()
}

func (a deadlineHook) Deadline() (time.Time, bool) {
	a.deadline()
	return a.Context.Deadline()
}

func TestHostIsClosedDuringLoad(t *testing.T) {
	for _, name := range []string{"ok", "spin"} { // with host functions, and without
		h, err := wasm.New(wasm.Config{CacheDir: testCache(scratch), Interpreter: interpreter})
		if err != nil {
			t.Fatal(err)
		}
		ctx := deadlineHook{t.Context(), func() {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}}
		_, err = h.Load(ctx, plugin.Found{Module: guestFile(t, name), Manifest: plugin.Minimal(name)})
		if want := `plugin "` + name + `": the plugin has been closed`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if n := h.Memory(); n != 0 {
			t.Errorf("%d bytes are in use", n)
		}
	}
}

// TestLoadIsAbandonedDuringInitialize covers that wazero may close the instance of an abandoned load
// after the guest has started.
func TestLoadIsAbandonedDuringInitialize(t *testing.T) {
	ctx, giveUp := context.WithCancelCause(t.Context())
	h, err := wasm.New(wasm.Config{
		CacheDir: testCache(scratch), Interpreter: interpreter, Rand: randHook(func() { giveUp(errors.New("given up")) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	_, err = h.Load(ctx, plugin.Found{Module: assemble(t, `(module
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_initialize") i32.const 0 i32.const 1 call $random drop)
  (func (export "probe") (result i32) i32.const 0))`), Manifest: plugin.Minimal("quick")})
	if want := `plugin "quick": _initialize: given up`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if n := h.Memory(); n != 0 {
		t.Errorf("%d bytes are in use", n)
	}
}

// TestLoadEndsDuringClose checks that a load that ends while Close waits for an attempt does not close
// the resources of the attempt.
func TestLoadEndsDuringClose(t *testing.T) {
	dials, starts, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
	h, err := wasm.New(wasm.Config{
		CacheDir: testCache(scratch), Interpreter: interpreter,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			dials <- struct{}{}
			<-dials
			return nil, errors.New("no wire")
		},
		Rand: randHook(func() {
			close(starts)
			<-goOn
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	load := func(module []byte, name string) (*wasm.Handler, error) {
		m := plugin.Minimal(name)
		m.Isolation = plugin.Fresh
		return h.Load(t.Context(), plugin.Found{Module: module, Manifest: m})
	}
	slow, err := load(guestFile(t, "dialurl"), "dialurl")
	if err != nil {
		t.Fatal(err)
	}
	other, err := load(guestFile(t, "ok"), "ok")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		guest, err := slow.Prepare([]byte(`{"url":"tcp://10.0.0.7:80"}`), elsewhere)
		if err != nil {
			t.Error(err)
			return
		}
		if got, err := attempt(t, guest, probe.Request{Target: elsewhere}, patience); err != nil || got.Output != "no wire" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	<-dials
	loaded := make(chan error)
	go func() {
		_, err := load(assemble(t, `(module
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_initialize") i32.const 0 i32.const 1 call $random drop)
  (func (export "probe") (result i32) i32.const 0))`), "last")
		loaded <- err
	}()
	<-starts
	all.Go(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	for { // wait until Close has begun
		p, err := load(guestFile(t, "ok"), "again")
		if err != nil {
			break
		}
		p.Close()
	}
	close(goOn)
	if err := <-loaded; err == nil {
		t.Error("a host that is closed loads a plugin")
	}
	if got, err := attempt(t, other, probe.Request{}, patience); err != nil || got.Result != probe.Success {
		t.Errorf("got %+v, %v", got, err)
	}
	dials <- struct{}{}
	all.Wait()
}
