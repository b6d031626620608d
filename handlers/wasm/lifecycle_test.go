package wasm_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

func TestErrorDiscardsInstance(t *testing.T) {
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

func TestPooledInstanceKeepsState(t *testing.T) {
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

// loadAs loads a file of testdata with the manifest m.
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

// TestLoadEndsDuringCompilation ends a load while its module is compiled, for some tenths of a second.
func TestLoadEndsDuringCompilation(t *testing.T) {
	h, err := wasm.New(wasm.Config{CacheDir: os.DevNull + "/cache"})
	if err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, stopped)
	defer cancel()
	body := sized([]byte("\x00" + strings.Repeat("\x41\x00\x1a", 300_000) + "\x41\x00\x0b"))
	module := moduleHeader + section(1, "\x01\x60\x00\x01\x7f") + section(3, "\x01\x00") + section(5, "\x01\x00\x01") +
		section(7, "\x02\x06memory\x02\x00\x05probe\x00\x00") + "\x0a" + string(sized(append([]byte{1}, body...)))
	_, err = h.Load(ctx, plugin.Found{Module: []byte(module), Manifest: plugin.Minimal("long")})
	if !errors.Is(err, stopped) || probe.ReasonOf(err) != probe.ReasonInstantiate {
		t.Errorf("got %v", err)
	}
	if err := h.Close(); err != nil { // must not wait for the compilation
		t.Error(err)
	}
	if _, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "ok"), Manifest: plugin.Minimal("ok")}); err == nil {
		t.Error("a host that is closed loads a plugin")
	}
	<-ctx.Done()
	var reg handlers.Registry
	if err := wasm.RegisterAll(ctx, &reg, h, []plugin.Found{{}, {}}); !errors.Is(err, stopped) || err.Error() != "stopped" {
		t.Errorf("after the end of the context: %v", err)
	}
}
