package wasm_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// An instance whose call did not end normally is not used again, whatever the reason.
func TestAnErrorThrowsTheInstanceAway(t *testing.T) {
	for name, want := range map[string]probe.Reason{
		"code":      probe.ReasonProtocol,
		"badresult": probe.ReasonProtocol,
		"contrary":  probe.ReasonProtocol,
		"guesterr":  probe.ReasonGuest,
		"trap":      probe.ReasonTrap,
	} {
		p := load(t, host, name, plugin.Reset)
		if _, err := attempt(t, p, probe.Request{}, 5*time.Second); probe.ReasonOf(err) != want {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
		if got := p.Stats(); got.Idle != 0 || got.Busy != 0 {
			t.Errorf("%s: got %+v, want no instance left", name, got)
		}
	}
}

func TestPooledInstancesRemember(t *testing.T) {
	m := plugin.Minimal("counter")
	m.Isolation, m.Stateful = plugin.Pooled, true
	p := loadAs(t, host, "counter", m)
	for i, want := range []probe.Result{probe.Success, probe.Warning, probe.Warning} {
		if got, err := attempt(t, p, probe.Request{}, 5*time.Second); err != nil || got.Result != want {
			t.Errorf("call %d: got %+v, %v, want %v", i, got, err, want)
		}
	}
	m.Stateful = false
	if _, err := host.Load(t.Context(), plugin.Found{Module: guestFile(t, "counter"), Manifest: m}); err == nil {
		t.Error("a plugin that is not stateful was pooled")
	}
}

// loadAs loads a file of testdata with a manifest of its own.
func loadAs(t testing.TB, h *wasm.Host, name string, m *plugin.Manifest, grants ...plugin.Grant) *wasm.Handler {
	t.Helper()
	p, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, name), Manifest: m, Grants: grants})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestCompilationIsGivenUp(t *testing.T) {
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: interpreter})
	if err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	_, err = h.Load(ctx, plugin.Found{Module: goModule(t), Manifest: plugin.Minimal("guest")}) // takes a second where it is not in the cache
	if n := wasm.Compiling(h); n != 1 {
		t.Errorf("%d compilations under way when Load returned, want the one that was given up", n)
	}
	if !errors.Is(err, stopped) || probe.ReasonOf(err) != probe.ReasonInstantiate {
		t.Errorf("got %v", err)
	}
	if err := h.Close(); err != nil { // does not wait either
		t.Error(err)
	}
	if _, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "ok"), Manifest: plugin.Minimal("ok")}); err == nil {
		t.Error("a host that is closed loads a plugin")
	}
	wasm.WaitForCompilers(h)
	if n := wasm.Compiling(h); n != 0 {
		t.Errorf("%d compilations under way", n)
	}
	var reg handlers.Registry
	if err := wasm.RegisterAll(ctx, &reg, h, []plugin.Found{{}, {}}); !errors.Is(err, stopped) || err.Error() != "stopped" {
		t.Errorf("after the end of the context: %v", err)
	}
}
