package wasm_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// constant returns a guest that always returns result. Guests with different results differ only in the
// body of a function.
func constant(t *testing.T, result string) []byte {
	return assemble(t, `(module (memory (export "memory") 1) (func (export "probe") (result i32) i32.const `+result+`))`)
}

// loadOnceMore loads a module with a new host over the folder cache, makes an attempt, and returns
// its result.
func loadOnceMore(t *testing.T, cache string, module []byte) probe.Result {
	t.Helper()
	var log bytes.Buffer
	h, err := wasm.New(wasm.Config{CacheDir: cache, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p, err := h.Load(t.Context(), plugin.Found{Module: module, Manifest: plugin.Minimal("constant")})
	if err != nil {
		t.Fatal(err)
	}
	got, err := attempt(t, p, probe.Request{}, time.Minute)
	if err != nil || log.Len() > 0 {
		t.Fatalf("got %+v, %v; the log:\n%s", got, err, &log)
	}
	return got.Result
}

// cacheFiles returns the stubs and the files of native code in the folder cache.
func cacheFiles(t *testing.T, cache string) (stubs, code []string) {
	t.Helper()
	for pattern, files := range map[string]*[]string{"v*/compiled-*": &stubs, "v*/wazero-*/*": &code} {
		var err error
		if *files, err = filepath.Glob(filepath.Join(cache, pattern)); err != nil {
			t.Fatal(err)
		}
	}
	return stubs, code
}

func TestModulesWithEqualStubsKeepTheirCode(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "cache")
	for range 2 { // the second time from the cache
		for result, want := range map[string]probe.Result{"0": probe.Success, "1": probe.Warning, "2": probe.Failure} {
			if got := loadOnceMore(t, cache, constant(t, result)); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	}
	if stubs, code := cacheFiles(t, cache); len(stubs) != 3 || len(code) != 3 {
		t.Errorf("the cache has %d stubs and %d files of native code, want 3", len(stubs), len(code))
	}
}

// TestIncompleteCacheIsRepaired checks that the empty functions of a stub are never compiled and run: they
// would trap.
func TestIncompleteCacheIsRepaired(t *testing.T) {
	damage := func(t *testing.T, path string) {
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()-10)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(t *testing.T, stub, code string){
		"stub removed":        func(t *testing.T, stub, _ string) { remove(t, stub) },
		"stub damaged":        func(t *testing.T, stub, _ string) { damage(t, stub) },
		"native code removed": func(t *testing.T, _, code string) { remove(t, code) },
		"native code damaged": func(t *testing.T, _, code string) { damage(t, code) },
		"both removed":        func(t *testing.T, stub, code string) { remove(t, stub); remove(t, code) },
	} {
		t.Run(name, func(t *testing.T) {
			cache := filepath.Join(t.TempDir(), "cache")
			module := constant(t, "1")
			if got := loadOnceMore(t, cache, module); got != probe.Warning {
				t.Fatalf("without a cache: got %v", got)
			}
			stubs, code := cacheFiles(t, cache)
			if len(stubs) != 1 || len(code) != 1 {
				t.Fatalf("the cache has %v and %v", stubs, code)
			}
			whole := [2][]byte{contents(t, stubs[0]), contents(t, code[0])}
			spoil(t, stubs[0], code[0])
			if got := loadOnceMore(t, cache, module); got != probe.Warning {
				t.Errorf("with an incomplete cache: got %v", got)
			}
			if !bytes.Equal(contents(t, stubs[0]), whole[0]) || !bytes.Equal(contents(t, code[0]), whole[1]) {
				t.Error("the cache is not as before")
			}
		})
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestLostStubKeepsNativeCode checks that a module whose stub was removed is inspected again, but not
// compiled again.
func TestLostStubKeepsNativeCode(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "cache")
	loadOnceMore(t, cache, constant(t, "2"))
	stubs, code := cacheFiles(t, cache)
	before, err := os.Stat(code[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(stubs[0]); err != nil {
		t.Fatal(err)
	}
	loadOnceMore(t, cache, constant(t, "2"))
	if after, err := os.Stat(code[0]); err != nil || !os.SameFile(before, after) {
		t.Errorf("the native code was written again, %v", err)
	}
	if again, _ := cacheFiles(t, cache); len(again) != 1 {
		t.Errorf("the stubs are %v", again)
	}
}
