package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/handlers/wasm/internal/memory"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
)

// instantiateWASI gives a runtime wazero's functions, but for those with which
// a guest closes its files: it has stdin, stdout and stderr only, and no reset opens them
// again for the next call. Those that take as long as what they are given are kept within
// bounds, see wasiBounds.
func instantiateWASI(ctx context.Context, runtime wazero.Runtime) error {
	builder := runtime.NewHostModuleBuilder(binary.WASI)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(builder)
	if err := boundWASI(ctx, builder); err != nil {
		return err
	}
	one := []api.ValueType{api.ValueTypeI32}
	builder.NewFunctionBuilder().WithGoFunction(api.GoFunc(closeFile), one, one).Export("fd_close")
	two := []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}
	builder.NewFunctionBuilder().WithGoFunction(api.GoFunc(renumberFile), two, one).Export("fd_renumber")
	_, err := builder.Instantiate(ctx)
	return err
}

func closeFile(_ context.Context, stack []uint64) {
	errno := abi.OK
	if uint32(stack[0]) > 2 {
		errno = abi.EBADF
	}
	stack[0] = uint64(errno)
}

func renumberFile(_ context.Context, stack []uint64) { stack[0] = uint64(abi.ENOTSUP) }

// World is what one instance sees of the outside: its streams, its clock, and the call that
// runs in it. It belongs to whoever runs the instance.
type World struct {
	plugin *Plugin
	memory *memory.Memory
	call   *Call // what runs now
	stdout lineWriter
	stderr lineWriter
}

// NewWorld returns the world of an instance of p that has that memory.
func NewWorld(p *Plugin, m *memory.Memory) *World {
	w := &World{plugin: p, memory: m}
	w.stdout = lineWriter{w: w, name: "stdout", keeps: p.Command}
	w.stderr = lineWriter{w: w, name: "stderr"}
	return w
}

// Begin makes c the call that runs in the instance.
func (w *World) Begin(c *Call) {
	w.call = c
	w.stdout.reset()
	w.stderr.reset()
}

// Flush logs lines that have no end.
func (w *World) Flush() {
	w.stdout.flush()
	w.stderr.flush()
}

// Call returns the call that began last.
func (w *World) Call() *Call { return w.call }

// Said returns the first line of stderr.
func (w *World) Said() string { return w.stderr.first }

// Config is the outside world of the instance: no files, no sockets, no arguments, an empty
// stdin, and the host's clock. of is the attempt that the instance is for, nil while the
// plugin is loaded.
func (w *World) Config(of *Call) wazero.ModuleConfig {
	// A Go guest in a small memory dies unless it knows how small.
	host := w.plugin.Host
	limit := strconv.FormatUint(w.memory.Limit()*6/10, 10)
	config := wazero.NewModuleConfig().
		WithName("").
		WithStartFunctions().
		WithArgs(w.plugin.Manifest.Name).
		WithEnv("GOMEMLIMIT", limit).
		WithStdout(&w.stdout).
		WithStderr(&w.stderr).
		WithWalltime(func() (int64, int32) { now := host.Clock.Now(); return now.Unix(), int32(now.Nanosecond()) }, 1).
		WithNanotime(func() int64 { return host.since(host.Born).Nanoseconds() + 1 }, 1).
		WithNanosleep(w.sleep).
		WithOsyield(func() {}).
		WithRandSource(random{w})
	if w.plugin.Command {
		return w.commandConfig(config, of)
	}
	return config
}

// sleep ends with the current call: wazero's own sleeps on past the deadline, for
// 292 years after poll({fd}, 1, -1).
func (w *World) sleep(ns int64) {
	w.call.idle(waiting{call: sleeping}, func(ctx context.Context) {
		w.plugin.Host.Clock.Wait(ctx, nil, time.Duration(ns))
	})
	w.call.unwindIfEnded()
}

// Wait returns when ctx ends, wake is signalled or d has passed; a negative d never
// passes. It reports whether wake was signalled.
func Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	var passed <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		passed = t.C
	}
	select {
	case <-ctx.Done():
	case <-passed:
	case <-wake:
		return true
	}
	return false
}

// random is the host's randomness, until the call ends: a guest may ask for as
// many bytes as it has memory.
type random struct{ w *World }

const randomChunk = 64 << 10

func (r random) Read(p []byte) (int, error) {
	if r.w.call.Ended() != nil {
		return 0, errors.New("the call has ended")
	}
	return r.w.plugin.Host.Rand.Read(p[:min(len(p), randomChunk)])
}

// lineWriter hands what a guest writes to stdout or stderr to the log, line by line.
type lineWriter struct {
	w     *World
	name  string
	line  []byte
	first string // the first line of the run
	// keeps says that what is written is kept rather than logged: the answer of a command.
	keeps   bool
	kept    []byte
	goTrace bool // the runtime of Go has told of its goroutines, as it does when it dies
}

const maxLine = 2 << 10

// Write implements [io.Writer]. What is over the limit of the run is dropped.
func (w *lineWriter) Write(p []byte) (int, error) {
	c := w.w.call
	if c.ctx.Err() != nil {
		return 0, errors.New("the call has ended")
	}
	room := w.w.plugin.Limits.Stdio - c.stdio
	if len(p) > room {
		c.Hit(plugin.LimitStdio)
	}
	keep := p[:min(len(p), room)]
	c.stdio += len(keep)
	if w.keeps {
		w.kept = append(w.kept, keep...)
		return len(p), nil
	}
	for _, b := range keep {
		// A secret is not parted: neither part of it would be found.
		if b == '\n' || len(w.line) >= maxLine && !c.hasSecrets() {
			w.flush()
		}
		if b != '\n' {
			w.line = append(w.line, b)
		}
	}
	return len(p), nil
}

// flush logs the line that has been gathered.
func (w *lineWriter) flush() {
	if len(w.line) == 0 {
		return
	}
	line := string(w.line)
	w.line = w.line[:0]
	w.goTrace = w.goTrace || strings.HasPrefix(line, "goroutine ") && strings.HasSuffix(line, "]:")
	if w.first == "" {
		w.first = line
	}
	w.w.call.logLine(w.name, line)
}

// reset forgets the run.
func (w *lineWriter) reset() { w.line, w.first, w.kept, w.goTrace = w.line[:0], "", nil, false }

// What a guest may give to one function of WASI. A path of 32 MiB, in a world without
// files, kept wazero busy for a second past the deadline and took as much again of the
// host's memory; nothing interrupts a host function.
const (
	maxVectors = 1024 // of a read or write, and subscriptions of a poll; as IOV_MAX
	maxPath    = 4096 // bytes; as PATH_MAX

	tooLongName abi.Errno = 37 // ENAMETOOLONG, which the contract's own functions do not answer
)

// wasiBounds returns, by the name of a function, which of its parameters say how many
// vectors or subscriptions there are, and which how long a path is.
func wasiBounds() (vectors, paths map[string][]int) {
	vectors = map[string][]int{"fd_read": {2}, "fd_pread": {2}, "fd_write": {2}, "fd_pwrite": {2}, "poll_oneoff": {2}}
	paths = map[string][]int{
		"path_create_directory": {2}, "path_filestat_get": {3}, "path_filestat_set_times": {3}, "path_link": {3, 6}, "path_open": {3},
		"path_readlink": {2}, "path_remove_directory": {2}, "path_rename": {2, 5}, "path_symlink": {1, 4}, "path_unlink_file": {2},
	}
	return vectors, paths
}

// boundWASI puts functions that look at what they are given in the place of wazero's. It
// has wazero's own from a runtime of its own, which is the one way to get at them.
func boundWASI(ctx context.Context, builder wazero.HostModuleBuilder) error {
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(ctx)
	theirs := runtime.NewHostModuleBuilder(binary.WASI)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(theirs)
	compiled, err := theirs.Compile(ctx)
	if err != nil {
		return err
	}
	vectors, paths := wasiBounds()
	for name, def := range compiled.ExportedFunctions() {
		f, ok := def.GoFunction().(api.GoModuleFunction)
		switch {
		case vectors[name] != nil && ok:
			f = bounded(f, vectors[name], maxVectors, abi.EINVAL)
		case paths[name] != nil && ok:
			f = bounded(f, paths[name], maxPath, tooLongName)
		case vectors[name] != nil || paths[name] != nil:
			return fmt.Errorf("%s.%s is no function of the host", binary.WASI, name)
		default:
			continue
		}
		builder.NewFunctionBuilder().WithGoModuleFunction(f, def.ParamTypes(), def.ResultTypes()).Export(name)
	}
	return nil
}

// bounded is f as long as the parameters at the indices are not above most, and answers
// errno otherwise.
func bounded(f api.GoModuleFunction, indices []int, most uint32, errno abi.Errno) api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		if slices.ContainsFunc(indices, func(i int) bool { return uint32(stack[i]) > most }) {
			stack[0] = uint64(errno)
			return
		}
		f.Call(ctx, mod, stack)
	}
}
