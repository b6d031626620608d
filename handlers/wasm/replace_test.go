package wasm_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// TestReplacementKeepsKV also checks that a new version of a plugin ends the quarantine.
func TestReplacementKeepsKV(t *testing.T) {
	swap := replace.New(replace.Config{Name: "kv"})
	replace := func() {
		p, err := host.Load(t.Context(), plugin.Found{Module: guestFile(t, "kv"), Manifest: asking("kv", plugin.Request{Capability: "kv"}), Grants: grants(t, "kv")})
		if err != nil {
			t.Fatal(err)
		}
		if err := swap.Replace(t.Context(), quarantine.New(p, quarantine.Config{Errors: 1})); err != nil {
			t.Fatal(err)
		}
	}
	replace()
	b, ill := bind(t, swap, `{"add":"x","code":0}`, probe.Target{}), bind(t, swap, `{"add":"x","code":8}`, probe.Target{})
	for _, want := range []string{"", "x", "xx", "xxx"} {
		if got, err := attempt(t, b, probe.Request{}, 5*time.Second); err != nil || got.Output != want {
			t.Errorf("got %q, %v; want %q", got.Output, err, want)
		}
		for _, want := range []bool{false, true} {
			_, err := attempt(t, ill, probe.Request{Attempt: 1}, 5*time.Second)
			if skipped := err != nil && strings.HasPrefix(err.Error(), "in quarantine"); skipped != want {
				t.Errorf("got %v, in quarantine: %v, want %v", err, skipped, want)
			}
		}
		replace()
	}
	if err := swap.Close(); err != nil {
		t.Error(err)
	}
}

func TestNewBindingKeepsKV(t *testing.T) {
	swap := replace.New(replace.Config{Name: "kv"})
	p, err := host.Load(t.Context(), plugin.Found{Module: guestFile(t, "kv"), Manifest: asking("kv", plugin.Request{Capability: "kv"}), Grants: grants(t, "kv")})
	if err != nil {
		t.Fatal(err)
	}
	if err := swap.Replace(t.Context(), quarantine.New(p, quarantine.Config{})); err != nil {
		t.Fatal(err)
	}
	var last probe.Handler
	for i, want := range []string{"", "x", "xy"} {
		b := bind(t, swap, `{"add":"`+string("xyz"[i])+`","code":0}`, probe.Target{})
		probe.Inherit(b, last)
		if got, err := attempt(t, b, probe.Request{}, 5*time.Second); err != nil || got.Output != want {
			t.Errorf("got %q, %v; want %q", got.Output, err, want)
		}
		last = b
	}
	if err := swap.Close(); err != nil {
		t.Error(err)
	}
}

// TestTryReturnsTrapsOnly checks that Try ignores the verdict, because the guest cannot use the network.
func TestTryReturnsTrapsOnly(t *testing.T) {
	for name, want := range map[string]string{
		"ok": "", "dialurl": "", "guesterr": "", "spin": "",
		"trap": "wasm error: unreachable", "code": "returned 42",
	} {
		h, err := load(t, host, name, plugin.Reset).Prepare([]byte("{}"), probe.Target{Host: "127.0.0.1", Port: 1})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err = h.(probe.Trier).Try(t.Context())
		for want != "" && err == nil && time.Since(start) >= time.Second { // retry after a timeout, because the machine may have been stopped
			start = time.Now()
			err = h.(probe.Trier).Try(t.Context())
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

func TestSetTotalMemory(t *testing.T) {
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: interpreter})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	p := load(t, h, "ok", plugin.Fresh)
	for _, c := range []struct {
		total uint64
		want  bool
	}{{0, true}, {1, false}, {1 << 20, true}} {
		h.SetTotalMemory(c.total)
		if _, err := attempt(t, p, probe.Request{}, 5*time.Second); (err == nil) != c.want {
			t.Errorf("%d bytes: %v", c.total, err)
		}
	}
}
