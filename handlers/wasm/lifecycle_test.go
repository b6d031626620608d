package wasm_test

import (
	"testing"
	"time"

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
	if _, err := host.Load(t.Context(), guestFile(t, "counter"), m); err == nil {
		t.Error("a plugin that is not stateful was pooled")
	}
}

// loadAs loads a file of testdata with a manifest of its own.
func loadAs(t testing.TB, h *wasm.Host, name string, m *plugin.Manifest, grants ...plugin.Grant) *wasm.Handler {
	t.Helper()
	p, err := h.LoadGranted(t.Context(), guestFile(t, name), m, grants)
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
