package wasm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
)

// asked is a context that tells when it is asked for its deadline, as a load does when the
// module has been compiled.
type asked struct {
	context.Context
	deadline func()
}

func (a asked) Deadline() (time.Time, bool) {
	a.deadline()
	return a.Context.Deadline()
}

// A host that is closed while a plugin is loaded leaves the load what it needs to come to
// its end.
func TestTheHostIsClosedWhileAPluginIsLoaded(t *testing.T) {
	for _, name := range []string{"ok", "spin"} { // with functions of the host, and without
		h, err := wasm.New(wasm.Config{CacheDir: testCache(scratch), Interpreter: interpreter})
		if err != nil {
			t.Fatal(err)
		}
		ctx := asked{t.Context(), func() {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}}
		_, err = h.Load(ctx, guestFile(t, name), plugin.Minimal(name))
		if want := `plugin "` + name + `": the plugin has been closed`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if n := h.Memory(); n != 0 {
			t.Errorf("%d bytes are in use", n)
		}
	}
}

// What began when the load was given up may have been closed with it, though it came to
// its end: no attempt is to find it.
func TestALoadIsGivenUpWhileTheGuestStarts(t *testing.T) {
	ctx, giveUp := context.WithCancelCause(t.Context())
	h, err := wasm.New(wasm.Config{
		CacheDir: testCache(scratch), Interpreter: interpreter, Rand: reading(func() { giveUp(errors.New("given up")) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	_, err = h.Load(ctx, assemble(t, `(module
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_initialize") i32.const 0 i32.const 1 call $random drop)
  (func (export "probe") (result i32) i32.const 0))`), plugin.Minimal("quick"))
	if want := `plugin "quick": _initialize: given up`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if n := h.Memory(); n != 0 {
		t.Errorf("%d bytes are in use", n)
	}
}
