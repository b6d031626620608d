package wasm_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Fixtures shared by the tests, because a Go guest takes seconds to build and to compile.
var (
	host    *wasm.Host // its disk cache outlives the tests; read-only after TestMain
	scratch string     // a folder; read-only after TestMain

	buildOnce = sync.OnceValues(func() ([]byte, error) { return buildGo(scratch, "./testdata/guest") })
	loadOnce  = sync.OnceValues(func() (*wasm.Handler, error) {
		module, err := buildOnce()
		if err != nil {
			return nil, err
		}
		return host.Load(context.Background(), plugin.Found{Module: module, Manifest: plugin.Minimal("guest")})
	})
)

// goModule returns testdata/guest, built with the stock toolchain.
func goModule(t testing.TB) []byte {
	t.Helper()
	module, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// goGuest returns the plugin of goModule with isolation reset.
func goGuest(t testing.TB) *wasm.Handler {
	t.Helper()
	guest, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	return guest
}

func TestMain(m *testing.M) {
	if wasm.IsCompiler(os.Args) {
		os.Exit(wasm.CompilerMain())
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // parallel tests of this package wait most of the time
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if scratch, err = os.MkdirTemp("", "prober-wasm-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(scratch)
	if host, err = wasm.New(wasm.Config{CacheDir: testCache(scratch), Version: "test", Interpreter: interpreter}); err != nil {
		return 0, err
	}
	code = m.Run()
	if err := host.Close(); err != nil {
		return 0, err
	}
	if err := goleak.Find(); err != nil && code == 0 {
		return 0, err
	}
	return code, nil
}

// testCache returns a folder that outlives the tests, or one in fallback if that is impossible.
func testCache(fallback string) string {
	base, err := os.UserCacheDir()
	if err != nil {
		return filepath.Join(fallback, "cache")
	}
	return filepath.Join(base, "prober-test", "wasm")
}

// buildGo builds a guest. It also opens the sources, so that go test does not use a cached result after
// they have changed.
func buildGo(dir, pkg string) ([]byte, error) {
	for _, pattern := range []string{pkg + "/*.go", "../../sdk/*.go", "../../sdk/sdkhttp/*.go", "../../internal/abi/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				return nil, err
			}
		}
	}
	out := filepath.Join(dir, filepath.Base(pkg)+".wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return os.ReadFile(out)
}

// bind prepares h for config and target.
func bind(t testing.TB, h probe.Preparer, config string, target probe.Target) probe.Handler {
	t.Helper()
	b, err := h.Prepare([]byte(config), target)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// patience is the time limit for a step that should succeed, on a slow machine.
const patience = 2 * time.Minute

// first returns a tracer that calls do on the first event.
func first(do func()) probe.Tracer {
	once := sync.OnceFunc(do)
	return func(probe.TraceEvent) { once() }
}

// attempt makes one attempt. A timeout of 5 s or more is extended to patience, because the test does not
// expect to reach it.
func attempt(t testing.TB, h probe.Handler, req probe.Request, timeout time.Duration) (probe.Outcome, error) {
	t.Helper()
	req.Spec.Timeout = timeout
	if timeout >= 5*time.Second {
		timeout = patience
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return h.Probe(ctx, req)
}

// overrun makes an attempt that must reach its deadline. If it was skipped because the host was
// busy, overrun makes another with more time.
func overrun(t testing.TB, h probe.Handler, req probe.Request, timeout time.Duration) (probe.Outcome, error) {
	t.Helper()
	req.Spec.Timeout = timeout
	for {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		out, err := h.Probe(ctx, req)
		cancel()
		if timeout *= 2; !errors.Is(err, probe.ErrNoSlot) || timeout > patience {
			return out, err
		}
	}
}
