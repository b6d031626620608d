package wasm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// compiling returns a host with a compiler process and its own cache folder.
func compiling(t *testing.T) (h *wasm.Host, cache string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(t.TempDir(), "cache")
	if h, err = wasm.New(wasm.Config{CacheDir: cache, Compiler: self}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h, cache
}

func TestCompilerFillsCache(t *testing.T) {
	h, cache := compiling(t)
	for range 2 { // the second time from the cache
		p, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "hang"), Manifest: plugin.Minimal("hang")})
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	for pattern, want := range map[string]int{"v*/wazero-*/*": 1, "v*/compiled-*": 1, "compiling-*": 0} {
		if found, _ := filepath.Glob(filepath.Join(cache, pattern)); len(found) != want {
			t.Errorf("%s: found %v, want %d", pattern, found, want)
		}
	}
}

func TestCompilerReturnsErrorOfModule(t *testing.T) {
	h, _ := compiling(t)
	broken := tableGuest("\x6a") // i32.add without operands
	_, err := h.Load(t.Context(), plugin.Found{Module: broken, Manifest: plugin.Minimal("broken")})
	if err == nil || !strings.Contains(err.Error(), `plugin "broken": compile: invalid function[0]`) {
		t.Errorf("got %v", err)
	}
}

func TestCompilerIsEndedWithLoad(t *testing.T) {
	h, cache := compiling(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := h.Load(ctx, plugin.Found{Module: goModule(t), Manifest: plugin.Minimal("slow")}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	for _, pattern := range []string{"v*/wazero-*/*", "compiling-*"} {
		if left, _ := filepath.Glob(filepath.Join(cache, pattern)); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}

// TestCompilerLimitsStopModuleForAnHour takes about 6 s: it builds the Go guest, and a child process
// compiles it up to each limit.
func TestCompilerLimitsStopModuleForAnHour(t *testing.T) {
	for want, limits := range map[string]struct {
		time   time.Duration
		memory uint64
	}{
		"it takes more than 100ms":          {100 * time.Millisecond, 1 << 30},
		"it takes more than 64Mi of memory": {time.Hour, 64 << 20},
	} {
		h, _ := compiling(t)
		wasm.LimitCompilers(h, limits.time, limits.memory)
		for _, want := range []string{want, want + "; it is not tried again before"} {
			_, err := h.Load(t.Context(), plugin.Found{Module: goModule(t), Manifest: plugin.Minimal("bomb")})
			if err == nil || probe.ReasonOf(err) != probe.ReasonInstantiate || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		wasm.LimitCompilers(h, time.Minute, 1<<30)
		p, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "hang"), Manifest: plugin.Minimal("hang")})
		if err != nil {
			t.Fatalf("another plugin: %v", err)
		}
		p.Close()
	}
}

func TestMissingCompilerCompilesInProcess(t *testing.T) {
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Compiler: filepath.Join(t.TempDir(), "gone")})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p, err := h.Load(t.Context(), plugin.Found{Module: guestFile(t, "hang"), Manifest: plugin.Minimal("hang")})
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}
