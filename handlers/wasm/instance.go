package wasm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
)

// instance is one live copy of a plugin's module. It belongs to whoever took it from
// the plugin: one call at a time.
type instance struct {
	plugin    *Handler
	module    api.Module
	probe     api.Function
	validate  api.Function // nil when the guest does not export it
	memory    *memory
	snapshot  []byte   // of memory, after _initialize; nil where each call has an instance of its own
	globals   []uint64 // at the same moment
	calls     int
	idleSince time.Time
	call      *call // what runs now
	stdout    lineWriter
	stderr    lineWriter
}

// newInstance makes an instance and runs what initializes it. ctx bounds that.
func (p *Handler) newInstance(ctx context.Context) (*instance, error) {
	memory, err := newMemory(&p.host.budget, p.module.minMemory, p.memoryCap)
	if err != nil {
		return nil, err
	}
	in := &instance{plugin: p, memory: memory}
	in.stdout = lineWriter{in: in, name: "stdout"}
	in.stderr = lineWriter{in: in, name: "stderr"}
	in.call = &call{ctx: ctx, host: p.host, plugin: p, starting: true}
	in.call.acquire()
	err = in.start(experimental.WithMemoryAllocator(withCall(ctx, in.call), memory))
	in.call.release()
	if err == nil {
		err = in.takeSnapshot()
	}
	if err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

func (in *instance) start(ctx context.Context) error {
	module, err := in.plugin.runtime.InstantiateModule(ctx, in.plugin.compiled, in.moduleConfig())
	if err != nil {
		return in.fault(err, probe.ReasonInstantiate)
	}
	in.module = module
	in.probe = module.ExportedFunction(abi.ExportProbe)
	in.validate = module.ExportedFunction(abi.ExportValidateConfig)
	if init := module.ExportedFunction(abi.ExportInitialize); init != nil {
		if err := init.CallWithStack(ctx, nil); err != nil {
			return in.fault(err, probe.ReasonInstantiate)
		}
	}
	return nil
}

// takeSnapshot keeps the state to which a reset goes back.
func (in *instance) takeSnapshot() error {
	if !in.plugin.reset {
		return nil
	}
	memory := in.bytes()
	if !in.memory.budget.take(uint64(len(memory))) {
		return errNoInstance
	}
	in.snapshot = slices.Clone(memory)
	in.globals = in.readGlobals(nil)
	return nil
}

// bytes is the whole of the guest's memory.
func (in *instance) bytes() []byte {
	memory := in.module.Memory()
	all, _ := memory.Read(0, memory.Size())
	return all
}

func (in *instance) readGlobals(to []uint64) []uint64 {
	internal, ok := in.module.(experimental.InternalModule)
	if !ok {
		return to
	}
	for i := range internal.NumGlobal() {
		to = append(to, internal.Global(i).Get())
	}
	return to
}

// snapshotted reports whether the instance can be used again.
func (in *instance) snapshotted() bool { return in.snapshot != nil }

// restore puts the instance back to its snapshot. It reports false where that cannot
// be done, or is no longer worth it: the instance must go then.
func (in *instance) restore() bool {
	if in.snapshot == nil || in.calls >= maxCalls {
		return false
	}
	var space [16]uint64
	if !slices.Equal(in.globals, in.readGlobals(space[:0])) {
		return false
	}
	memory := in.bytes()
	if len(memory) > 2*len(in.snapshot) {
		return false
	}
	n := copy(memory, in.snapshot)
	clear(memory[n:])
	return true
}

// run calls fn for c. An error means that the instance must go.
func (in *instance) run(c *call, fn api.Function) (code int32, err error) {
	in.call = c
	in.calls++
	in.stdout.reset()
	in.stderr.reset()
	in.memory.refused = false
	stack := [1]uint64{}
	err = fn.CallWithStack(withCall(c.ctx, c), stack[:])
	in.stdout.flush()
	in.stderr.flush()
	if err != nil {
		return 0, in.fault(err, probe.ReasonTrap)
	}
	return int32(stack[0]), nil
}

// fault gives the error of a guest's call its reason.
func (in *instance) fault(err error, reason probe.Reason) error {
	in.stderr.flush()
	if in.call.ctx.Err() == nil {
		in.call.trace(probe.TraceEvent{Type: probe.TraceLog, Name: "trap", Detail: err.Error()})
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = strings.TrimSuffix(text, " (recovered by wazero)")
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		text = fmt.Sprintf("exited with code %d", exit.ExitCode())
	}
	if in.stderr.first != "" {
		text += ": " + in.stderr.first
	}
	if in.memory.refused {
		text = fmt.Sprintf("wants more than %d bytes of memory: %s", in.memory.cap, text)
		if reason == probe.ReasonTrap {
			reason = probe.ReasonMemory
		}
	}
	return &probe.Error{Reason: reason, Err: errors.New(text)}
}

func (in *instance) close() {
	if in.module != nil {
		_ = in.module.Close(context.Background())
	}
	if in.snapshot != nil {
		in.memory.budget.put(uint64(len(in.snapshot)))
	}
	in.memory.release()
}
