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

// instantiateWASI adds wazero's WASI functions to a runtime. The functions that close files do
// nothing: a guest has stdin, stdout and stderr only, and a reset would not reopen them. The
// parameters that determine how long a function runs are bounded, see wasiBounds.
func (h *Host) instantiateWASI(ctx context.Context, runtime wazero.Runtime) error {
	builder := runtime.NewHostModuleBuilder(binary.WASI)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(builder)
	if err := h.boundWASI(ctx, builder); err != nil {
		return err
	}
	one := []api.ValueType{api.ValueTypeI32}
	builder.NewFunctionBuilder().WithGoModuleFunction(h.observed(binary.WASI, "fd_close", closeFile), one, one).Export("fd_close")
	two := []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}
	builder.NewFunctionBuilder().WithGoModuleFunction(h.observed(binary.WASI, "fd_renumber", renumberFile), two, one).Export("fd_renumber")
	_, err := builder.Instantiate(ctx)
	return err
}

// closeFile is fd_close: it does nothing.
func closeFile(_ context.Context, _ api.Module, stack []uint64) {
	errno := abi.OK
	if uint32(stack[0]) > 2 {
		errno = abi.EBADF
	}
	stack[0] = uint64(errno)
}

func renumberFile(_ context.Context, _ api.Module, stack []uint64) { stack[0] = uint64(abi.ENOTSUP) }

// World is the host's side of one instance: its streams, its clock, and the current call. Only the
// goroutine that runs the instance may use it.
type World struct {
	plugin *Plugin
	memory *memory.Memory
	call   *Call             // the current call
	fuel   api.MutableGlobal // of the instance; nil if it is not metered
	stdout lineWriter
	stderr lineWriter
}

// NewWorld returns the world of an instance of p with the memory m.
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

// FaultLine returns the line in which the guest of the current call says why it ended: the message of a panic on
// stderr or stdout, or else its last error in the log, or else its last line of stderr. It is "" if there is none.
func (w *World) FaultLine() string {
	line := cmp.Or(w.stderr.fault.text, w.stdout.fault.text, panicIn(w.stdout.kept), w.call.errorLine, w.stderr.last)
	if w.call.req != nil {
		line = w.call.req.Redacted(line) // before it is changed and cut
	}
	return oneLine(line)
}

// Config returns the configuration of the instance: no files, no sockets, no arguments, an empty
// stdin, and the host's clock. forCall is the call that needs the instance, or nil while the plugin is
// loaded.
func (w *World) Config(forCall *Call) wazero.ModuleConfig {
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
		return w.commandConfig(config, forCall)
	}
	return config
}

// sleep returns early when the current call ends. wazero's own would sleep past the deadline.
func (w *World) sleep(ns int64) {
	w.call.idle(waiting{call: sleeping}, func(ctx context.Context) {
		w.plugin.Host.Clock.Wait(ctx, nil, time.Duration(ns))
	})
	w.call.unwindIfEnded()
}

// random reads the host's source of randomness in chunks, and stops when the call ends. A guest may
// ask for as many bytes as fit into its memory.
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
	last    string // the last line of the call that is not indented, as the frames of a stack trace are
	fault   fault
	keeps   bool // the bytes are the result of a command, so they are kept and not logged
	kept    []byte
	goTrace bool // the call printed the stack trace of a Go panic
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
	if line[0] != ' ' && line[0] != '\t' {
		w.last = line
	}
	w.fault.add(line)
	w.w.call.logLine(w.name, line)
}

// reset prepares the writer for a new call.
func (w *lineWriter) reset() {
	w.line, w.first, w.last, w.fault, w.kept, w.goTrace = w.line[:0], "", "", fault{}, nil, false
}

// Limits of the parameters of WASI functions. A host function cannot be interrupted: with a path of
// 32 MiB, wazero ran for a second past the deadline.
const (
	maxVectors = 1024 // vectors of a read or write, subscriptions of a poll; same as IOV_MAX
	maxPath    = 4096 // bytes, same as PATH_MAX

	tooLongName abi.Errno = 37 // ENAMETOOLONG, which the contract's own functions do not return
)

// wasiBound bounds parameters of a function. Above the bound, the function returns errno.
type wasiBound struct {
	params []int
	most   uint32
	errno  abi.Errno
}

// wasiBounds returns bounds by function name. They limit the number of vectors or subscriptions, and
// the length of paths.
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

// boundWASI replaces functions of wazero by bounded ones. wazero's own functions are only accessible
// by compiling them in another runtime.
func (h *Host) boundWASI(ctx context.Context, builder wazero.HostModuleBuilder) error {
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(ctx)
	theirs := runtime.NewHostModuleBuilder(binary.WASI)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(theirs)
	compiled, err := theirs.Compile(ctx)
	if err != nil {
		return err
	}
	functions := compiled.ExportedFunctions()
	bounds := wasiBounds()
	for name := range bounds {
		if functions[name] == nil {
			return fmt.Errorf("wazero has no %s.%s", binary.WASI, name)
		}
	}
	for name, def := range functions {
		bound, bounded := bounds[name]
		if !bounded && h.OnCall == nil {
			continue
		}
		f, ok := def.GoFunction().(api.GoModuleFunction)
		if !ok {
			return fmt.Errorf("%s.%s is not a function of the host", binary.WASI, name)
		}
		builder.NewFunctionBuilder().WithGoModuleFunction(h.observed(binary.WASI, name, bound.apply(f)), def.ParamTypes(), def.ResultTypes()).Export(name)
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
