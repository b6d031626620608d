package guest

import (
	"cmp"
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

// instantiateWASI gives a runtime the functions of wazero, except those that close files: a
// guest has stdin, stdout and stderr only, and a reset would not open them again. Functions
// whose time depends on their parameters are bounded, see wasiBounds.
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

// closeFile is fd_close: it does nothing.
func closeFile(_ context.Context, stack []uint64) {
	errno := abi.OK
	if uint32(stack[0]) > 2 {
		errno = abi.EBADF
	}
	stack[0] = uint64(errno)
}

func renumberFile(_ context.Context, stack []uint64) { stack[0] = uint64(abi.ENOTSUP) }

// World is what one instance sees of the host: its streams, its clock, and the call that runs
// in it. It belongs to the goroutine that runs the instance.
type World struct {
	plugin *Plugin
	memory *memory.Memory
	call   *Call             // the current call
	fuel   api.MutableGlobal // of the instance; nil if it is not metered
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

// Begin makes c the current call.
func (w *World) Begin(c *Call) {
	w.call = c
	w.stdout.reset()
	w.stderr.reset()
}

// Flush logs unfinished lines.
func (w *World) Flush() {
	w.stdout.flush()
	w.stderr.flush()
}

// Call returns the current call.
func (w *World) Call() *Call { return w.call }

// Said returns the line of stderr in the current call that begins a panic, or the first one.
func (w *World) Said() string { return cmp.Or(w.stderr.fault, w.stderr.first) }

// Config returns the configuration of the instance: no files, no sockets, no arguments, an
// empty stdin, and the host's clock. of is the attempt that the instance is made for; nil while
// the plugin is loaded.
func (w *World) Config(of *Call) wazero.ModuleConfig {
	// Without GOMEMLIMIT a Go guest runs out of a small memory.
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

// sleep ends with the current call. That of wazero would sleep past the deadline.
func (w *World) sleep(ns int64) {
	w.call.idle(waiting{call: sleeping}, func(ctx context.Context) {
		w.plugin.Host.Clock.Wait(ctx, nil, time.Duration(ns))
	})
	w.call.unwindIfEnded()
}

// random reads the host's source of randomness until the call ends. A guest may ask for as many
// bytes as it has memory.
type random struct{ w *World }

const randomChunk = 64 << 10

func (r random) Read(p []byte) (int, error) {
	if r.w.call.Ended() != nil {
		return 0, errors.New("the call has ended")
	}
	return r.w.plugin.Host.Rand.Read(p[:min(len(p), randomChunk)])
}

// lineWriter logs the lines that a guest writes to stdout or stderr.
type lineWriter struct {
	w       *World
	name    string
	line    []byte
	first   string // the first line of the call
	fault   string // the line that begins a panic
	keeps   bool   // the bytes are kept instead: they are the result of a command
	kept    []byte
	goTrace bool // there was a stack trace of Go, as a panic prints it
}

const maxLine = 2 << 10

// Write implements [io.Writer]. Bytes beyond the limit of the call are dropped.
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
		// With secrets, long lines are not split: a split secret would not be redacted.
		if b == '\n' || len(w.line) >= maxLine && !c.hasSecrets() {
			w.flush()
		}
		if b != '\n' {
			w.line = append(w.line, b)
		}
	}
	return len(p), nil
}

// flush logs the current line.
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
	if w.fault == "" && isFault(line) {
		w.fault = line
	}
	w.w.call.logLine(w.name, line)
}

// reset begins a new call.
func (w *lineWriter) reset() {
	w.line, w.first, w.fault, w.kept, w.goTrace = w.line[:0], "", "", nil, false
}

// isFault reports whether Go or Rust begin a panic with line.
func isFault(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "thread '") && strings.Contains(line, "' panicked at ")
}

// Limits of the parameters of WASI functions. Nothing interrupts a host function: a path of
// 32 MiB kept wazero busy for a second past the deadline.
const (
	maxVectors = 1024 // of a read or write, and subscriptions of a poll; as IOV_MAX
	maxPath    = 4096 // bytes; as PATH_MAX

	tooLongName abi.Errno = 37 // ENAMETOOLONG, which the contract's own functions do not return
)

// wasiBound bounds parameters of a function, which returns errno above most.
type wasiBound struct {
	params []int
	most   uint32
	errno  abi.Errno
}

// wasiBounds returns the bounds by the name of the function: of the number of vectors or
// subscriptions, and of the length of paths.
func wasiBounds() map[string]wasiBound {
	bounds := make(map[string]wasiBound)
	for _, name := range []string{"fd_read", "fd_pread", "fd_write", "fd_pwrite", "poll_oneoff"} {
		bounds[name] = wasiBound{[]int{2}, maxVectors, abi.EINVAL}
	}
	for name, params := range map[string][]int{
		"path_create_directory": {2}, "path_filestat_get": {3}, "path_filestat_set_times": {3}, "path_link": {3, 6}, "path_open": {3},
		"path_readlink": {2}, "path_remove_directory": {2}, "path_rename": {2, 5}, "path_symlink": {1, 4}, "path_unlink_file": {2},
	} {
		bounds[name] = wasiBound{params, maxPath, tooLongName}
	}
	return bounds
}

// boundWASI replaces functions of wazero by bounded ones. The only way to get at wazero's own is
// to compile them in another runtime.
func boundWASI(ctx context.Context, builder wazero.HostModuleBuilder) error {
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(ctx)
	theirs := runtime.NewHostModuleBuilder(binary.WASI)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(theirs)
	compiled, err := theirs.Compile(ctx)
	if err != nil {
		return err
	}
	functions := compiled.ExportedFunctions()
	for name, bound := range wasiBounds() {
		def, ok := functions[name]
		if !ok {
			return fmt.Errorf("wazero has no %s.%s", binary.WASI, name)
		}
		f, ok := def.GoFunction().(api.GoModuleFunction)
		if !ok {
			return fmt.Errorf("%s.%s is not a function of the host", binary.WASI, name)
		}
		builder.NewFunctionBuilder().WithGoModuleFunction(bound.apply(f), def.ParamTypes(), def.ResultTypes()).Export(name)
	}
	return nil
}

// apply returns f with bounded parameters.
func (b wasiBound) apply(f api.GoModuleFunction) api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		if slices.ContainsFunc(b.params, func(i int) bool { return uint32(stack[i]) > b.most }) {
			stack[0] = uint64(b.errno)
			return
		}
		f.Call(ctx, mod, stack)
	}
}
