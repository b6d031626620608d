package attempt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/pluginpb"
	"github.com/daeace23/prober/plugin"
)

// measureStarts measures starts of a guest that is in the compilation cache, by prober and by wazero alone.
func measureStarts(ctx context.Context, cache, path string, rounds int) (runs []record.Run, err error) {
	module, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	subjects := []struct {
		name, cache string
		start       func(ctx context.Context, cache string, module []byte) (time.Duration, error)
	}{
		{Cached, filepath.Join(cache, "prober"), startCached},
		{BareCached, filepath.Join(cache, "wazero"), startBare},
	}
	for n := range rounds + 1 {
		for _, s := range subjects {
			took, err := s.start(ctx, s.cache, module)
			if err != nil {
				return nil, err
			}
			if n > 0 { // the first one fills the cache
				runs = append(runs, record.Run{Subject: s.name, Round: n, Figures: map[string]record.Number{"start-ms": milliseconds(took)}})
			}
		}
	}
	return runs, nil
}

// startCached loads a guest until its first instance can be called.
func startCached(ctx context.Context, cache string, module []byte) (took time.Duration, err error) {
	start := time.Now()
	host, err := wasm.New(wasm.Config{CacheDir: cache})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	if _, err := host.Load(ctx, plugin.Found{Module: module, Manifest: plugin.Minimal("hello")}); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// startBare does the same with wazero alone, with host functions that do nothing.
func startBare(ctx context.Context, folder string, module []byte) (took time.Duration, err error) {
	start := time.Now()
	cache, err := wazero.NewCompilationCacheWithDir(folder)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cache.Close(ctx)) }()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithDebugInfoEnabled(false).WithCompilationCache(cache))
	defer func() { err = errors.Join(err, r.Close(ctx)) }()
	compiled, err := r.CompileModule(ctx, module)
	if err != nil {
		return 0, err
	}
	if err := bareImports(ctx, r, compiled); err != nil {
		return 0, err
	}
	if _, err := r.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithStartFunctions("_initialize")); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// bareImports instantiates the modules that a guest imports. WASI is wazero's implementation.
func bareImports(ctx context.Context, r wazero.Runtime, compiled wazero.CompiledModule) error {
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return err
	}
	modules := make(map[string]wazero.HostModuleBuilder)
	for _, f := range compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		if from == wasi_snapshot_preview1.ModuleName {
			continue
		}
		if modules[from] == nil {
			modules[from] = r.NewHostModuleBuilder(from)
		}
		nothing := api.GoModuleFunc(func(_ context.Context, _ api.Module, stack []uint64) { clear(stack[:len(f.ResultTypes())]) })
		modules[from].NewFunctionBuilder().WithGoModuleFunction(nothing, f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, m := range modules {
		if _, err := m.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startsEach is the number of starts of a process in a round. Their durations vary a lot.
const startsEach = 9

// measureProcessStarts starts a process of go-plugin until it has described itself, and the same program
// alone. The figures of a round are the medians of its starts, and the difference of both.
func measureProcessStarts(ctx context.Context, path string, rounds int) (runs []record.Run, err error) {
	for n := range rounds + 1 {
		var alone, read, start []float64
		for range startsEach {
			s, err := startProcess(ctx, path)
			if err != nil {
				return nil, err
			}
			alone, read, start = append(alone, s.alone), append(read, s.read), append(start, s.start)
		}
		if n == 0 { // the first ones read the program from the disk
			continue
		}
		median := func(of []float64) record.Number { return record.Number(measure.Summarize(of).Median) }
		runs = append(runs,
			record.Run{Subject: ProcessAlone, Round: n, Figures: map[string]record.Number{"start-ms": median(alone)}},
			record.Run{Subject: ProcessStart, Round: n, Figures: map[string]record.Number{"read-ms": median(read), "start-ms": median(start), "beyond-ms": median(start) - median(alone)}},
		)
	}
	return runs, nil
}

// processStart has the durations of the parts of one start, in milliseconds.
type processStart struct{ alone, read, start float64 }

// startProcess starts the program at path alone, and then as a plugin.
func startProcess(ctx context.Context, path string) (s processStart, err error) {
	alone, err := startAlone(ctx, path)
	if err != nil {
		return s, err
	}
	begin := time.Now()
	found, err := foundProcess(path)
	if err != nil {
		return s, err
	}
	start := time.Now()
	p, err := process.Load(ctx, process.Config{StartTimeout: time.Minute}, found)
	took := time.Since(start)
	if err != nil {
		return s, err
	}
	return processStart{float64(milliseconds(alone)), float64(milliseconds(start.Sub(begin))), float64(milliseconds(took))}, p.Close()
}

func milliseconds(d time.Duration) record.Number { return record.Number(d.Seconds() * 1000) }

// startAlone starts a program of go-plugin, without TLS, until it has written the line with its address.
func startAlone(ctx context.Context, path string) (took time.Duration, err error) {
	folder, err := os.MkdirTemp("", "prober-alone")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = []string{pluginpb.CookieKey + "=" + pluginpb.CookieValue, "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR=" + folder}
	stdin, err := cmd.StdinPipe() // closing it ends the process
	if err != nil {
		return 0, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	took = time.Since(start)
	_, _ = stdin.Close(), cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil || !strings.Contains(line, "|unix|") {
		return 0, fmt.Errorf("%s wrote the line %q: %v", path, line, err)
	}
	return took, nil
}
