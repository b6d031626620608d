package wasm

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
)

// instantiateWASI gives the plugin's runtime wazero's functions, but for those with which
// a guest closes its files: it has stdin, stdout and stderr only, and no reset opens them
// again for the next call. Those that take as long as what they are given are kept within
// bounds, see wasiBounds.
func (p *Handler) instantiateWASI(ctx context.Context) error {
	builder := p.runtime.NewHostModuleBuilder(binary.WASI)
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

// moduleConfig is the outside world of one instance: no files, no sockets, no
// arguments, an empty stdin, and the host's clock. of is the attempt that the instance
// is for, nil while the plugin is loaded.
func (in *instance) moduleConfig(of *call) wazero.ModuleConfig {
	// A Go guest in a small memory dies unless it knows how small.
	clock := in.plugin.host.cfg.Clock
	limit := strconv.FormatUint(in.memory.Limit()*6/10, 10)
	config := wazero.NewModuleConfig().
		WithName("").
		WithStartFunctions().
		WithArgs(in.plugin.manifest.Name).
		WithEnv("GOMEMLIMIT", limit).
		WithStdout(&in.stdout).
		WithStderr(&in.stderr).
		WithWalltime(func() (int64, int32) { now := clock.Now(); return now.Unix(), int32(now.Nanosecond()) }, 1).
		WithNanotime(func() int64 { return clock.Now().Sub(in.plugin.host.born).Nanoseconds() + 1 }, 1).
		WithNanosleep(in.sleep).
		WithOsyield(func() {}).
		WithRandSource(random{in})
	if in.plugin.command {
		return in.commandWorld(config, of)
	}
	return config
}

// sleep ends with the current call: wazero's own sleeps on past the deadline, for
// 292 years after poll({fd}, 1, -1).
func (in *instance) sleep(ns int64) {
	in.call.idle(waiting{call: sleeping}, func(ctx context.Context) {
		in.plugin.host.cfg.Clock.Wait(ctx, nil, time.Duration(ns))
	})
	in.call.unwindIfEnded()
}

// wait returns when ctx ends, wake is signalled or d has passed; a negative d never
// passes. It reports whether wake was signalled.
func wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
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
type random struct{ in *instance }

const randomChunk = 64 << 10

func (r random) Read(p []byte) (int, error) {
	if withCall(r.in.call.ctx, r.in.call).Err() != nil {
		return 0, errors.New("the call has ended")
	}
	return r.in.plugin.host.cfg.Rand.Read(p[:min(len(p), randomChunk)])
}

// lineWriter hands what a guest writes to stdout or stderr to the log, line by line.
type lineWriter struct {
	in    *instance
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
	c := w.in.call
	if c.ctx.Err() != nil {
		return 0, errors.New("the call has ended")
	}
	room := w.in.plugin.limits.Stdio - c.stdio
	if len(p) > room {
		c.hit(plugin.LimitStdio)
	}
	keep := p[:min(len(p), room)]
	c.stdio += len(keep)
	if w.keeps {
		w.kept = append(w.kept, keep...)
		return len(p), nil
	}
	for _, b := range keep {
		// A secret is not parted: neither part of it would be found.
		if b == '\n' || len(w.line) >= maxLine && !c.keepsSecrets() {
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
	w.in.call.logLine(w.name, line)
}

// reset forgets the run.
func (w *lineWriter) reset() { w.line, w.first, w.kept, w.goTrace = w.line[:0], "", nil, false }
