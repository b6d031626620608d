package sdktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/probe"
)

// Guest is a plugin in its sandbox, with only a grant for its target. It is safe for concurrent use.
type Guest struct {
	probe.Preparer // returns a handler for a config and a target
	host           *wasm.Host
	dir            string // temporary folder
	module         string // path of the module
	cache          string // folder of compiled modules
}

// NewGuest builds the Go plugin in dir as [Build] does, and loads it. The compiled module is cached in the
// user's cache folder.
func NewGuest(ctx context.Context, dir string) (*Guest, error) {
	code, err := Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	g := new(Guest)
	if err := g.load(ctx, code); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func (g *Guest) load(ctx context.Context, code []byte) (err error) {
	if g.dir, err = os.MkdirTemp("", "prober-sdktest-"); err != nil {
		return err
	}
	g.module = filepath.Join(g.dir, "plugin.wasm")
	if err := os.WriteFile(g.module, code, 0o600); err != nil {
		return err
	}
	g.cache = cacheDir(g.dir)
	if g.host, err = wasm.New(wasm.Config{CacheDir: g.cache}); err != nil {
		return err
	}
	handler, err := g.host.Load(ctx, plugin.Found{Module: code})
	if err != nil {
		return err
	}
	g.Preparer = handler
	return nil
}

// cacheDir returns a folder that outlives the test, if there is one, because compiling a guest takes
// seconds.
func cacheDir(fallback string) string {
	base, err := os.UserCacheDir()
	if err != nil {
		return filepath.Join(fallback, "cache")
	}
	return filepath.Join(base, "prober-test", "wasm")
}

// Close ends the guest and removes its module.
func (g *Guest) Close() error {
	var err error
	if g.host != nil {
		err = g.host.Close()
	}
	return errors.Join(err, os.RemoveAll(g.dir))
}

// Run runs the cases of the files and the conformance checks, each in a subtest with its name. Without
// files it runs the files in the working folder and below. The plugin that a file names is ignored.
func (g *Guest) Run(t *testing.T, files ...string) {
	t.Helper()
	eachFile(t, files, g.runFile)
}

func (g *Guest) runFile(t *testing.T, file string) {
	f, err := plugintest.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg := plugintest.Config{Plugin: g.module, CacheDir: g.cache, Commands: true, Patience: time.Second} // prober plugin test waits longer
	report, err := plugintest.Run(t.Context(), f, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		t.Run(r.Name, func(t *testing.T) {
			if !r.OK() {
				t.Errorf("%s:%d: %s\n%s%q", r.File, r.Line, strings.Join(r.Failures, "\n"), r.Diff, r.Trace)
			}
		})
	}
}

// Build compiles the Go plugin in dir to a guest with the plugin.yaml in dir, and returns the
// module. The go command must be in PATH.
func Build(ctx context.Context, dir string) ([]byte, error) {
	scratch, err := os.MkdirTemp("", "prober-sdktest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	out := filepath.Join(scratch, "plugin.wasm")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildmode=c-shared", "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the plugin in %s: %w\n%s", dir, err, text)
	}
	code, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "plugin.yaml"))
	if err != nil {
		return nil, err
	}
	return plugin.Embed(code, manifest)
}
