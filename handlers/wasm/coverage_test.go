package wasm_test

import (
	"context"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// counted makes two attempts with a guest of testdata in a host that counts all, and returns its fuel as the host
// counts it.
func counted(t *testing.T, c *wasm.Coverage, name string, checks bool) (fuel uint64) {
	t.Helper()
	h, err := wasm.New(wasm.Config{CacheDir: t.TempDir(), Interpreter: interpreter, Coverage: c, Checks: checks})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, name), Manifest: plugin.Minimal(name)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, _ = p.Probe(ctx, probe.Request{}) // some trap, some reach the deadline
		cancel()
	}
	fuel = p.Stats().Fuel
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	return fuel
}

// TestFuelOfFunctionsIsFuelOfHost compares the fuel of all functions with the fuel that the host counts. The calls
// return, trap, reach their deadlines, and begin with a reset.
func TestFuelOfFunctionsIsFuelOfHost(t *testing.T) {
	for _, name := range []string{"ok", "counter", "global", "grow", "table", "trap", "spin", "spam", "sleep", "code"} {
		t.Run(name, func(t *testing.T) {
			c := &wasm.Coverage{CountFuel: true, CountBlocks: func(int, int) bool { return true }}
			want := counted(t, c, name, false)
			var got uint64
			for _, f := range c.Functions() {
				got += f.Fuel
			}
			if got != want || got == 0 {
				t.Errorf("the functions took %d units, the calls %d", got, want)
			}
			if blocks := c.Blocks(); len(blocks) == 0 || blocks[0].Runs == 0 {
				t.Errorf("got %v, want runs of the first block", blocks)
			}
		})
	}
}

func TestCallsOfHostAreCounted(t *testing.T) {
	for name, want := range map[string]string{"spam": "prober_v1.log", "sleep": "wasi_snapshot_preview1.poll_oneoff"} {
		c := &wasm.Coverage{CountFuel: true}
		counted(t, c, name, false)
		calls := c.HostCalls()
		if len(calls) != 1 || calls[0].Name != want || calls[0].Calls < 2 {
			t.Errorf("%s: got %v, want calls of %s", name, calls, want)
		}
		if name == "sleep" && calls[0].Waited <= 0 {
			t.Errorf("%s: got %v, want a wait", name, calls)
		}
	}
}

// TestCoverageOfUnmeteredGuest counts only calls.
func TestCoverageOfUnmeteredGuest(t *testing.T) {
	c := &wasm.Coverage{CountFuel: true, CountBlocks: func(int, int) bool { return true }}
	counted(t, c, "ok", true)
	functions := c.Functions()
	if len(functions) == 0 || functions[0].Calls != 2 || functions[0].Fuel != 0 || len(c.Blocks()) > 0 || c.Uncounted() == "" {
		t.Errorf("got %v, %v, %q", functions, c.Blocks(), c.Uncounted())
	}
}
