package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/handlers/wasm/internal/guest"
	"github.com/daeace23/prober/handlers/wasm/internal/memory"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// instance is one live copy of a plugin's module. It is used by one call at a time.
type instance struct {
	plugin     *Handler
	module     api.Module
	probe      api.Function
	probeStack memory.Stack // the stack of probe
	memory     *memory.Memory
	globals    []api.MutableGlobal // in the order of binary.Module.Globals
	calls      int
	idleSince  time.Time
	world      *guest.World
	stack      [1]uint64 // holds the result of an export
}

// image is the state of the first instance after _initialize. Other instances of the plugin begin
// with this state, and a reset restores it. It is read-only.
type image struct {
	*memory.Image
	globals []uint64
}

// newInstance makes an instance for a call. The call is nil while the plugin is loaded.
func (p *Handler) newInstance(ctx context.Context, forCall *call) (_ *instance, err error) {
	in := &instance{plugin: p}
	if in.memory, err = memory.New(p.host.budget, p.initialMemory(), uint64(p.guest.Limits.Memory)); err != nil {
		p.guest.Hits[plugin.LimitTotalMemory].Add(1)
		if err == memory.ErrNoRoom {
			return nil, ErrNoInstance
		}
		return nil, fmt.Errorf("%w: %w", ErrNoInstance, err) // err is the system's
	}
	if forCall != nil {
		in.memory.Hold(forCall)
	}
	startCall := guest.NewStart(ctx, &p.guest)
	in.world = guest.NewWorld(&p.guest, in.memory)
	in.world.Begin(startCall)
	started := false
	defer func() {
		startCall.Release()
		if !started {
			in.close()
		}
	}()
	if err = in.start(experimental.WithMemoryAllocator(guest.WithCall(ctx, startCall), in.memory), forCall); err == nil {
		in.memory.DropStack()
		started = true
		return in, nil
	}
	if forCall != nil && in.memory.Starved() { // other instances use the memory: not an error of the plugin
		forCall.Hit(plugin.LimitTotalMemory)
		err = ErrNoInstance
	}
	return nil, err
}

// initialMemory returns the amount that a new instance takes from the budget.
func (p *Handler) initialMemory() memory.Amount {
	if p.image == nil {
		return memory.Whole(p.module.MinMemory)
	}
	return p.image.Initial()
}

// start instantiates the module and puts it into the state after _initialize.
func (in *instance) start(ctx context.Context, forCall *call) error {
	module, err := in.plugin.runtime.InstantiateModule(ctx, in.plugin.compiled, in.world.Config(forCall.attempt()))
	if err != nil {
		return in.fault(err, probe.ReasonInstantiate)
	}
	in.module = module
	if in.plugin.module.Metered {
		fuel, ok := module.ExportedGlobal(binary.FuelName).(api.MutableGlobal)
		if !ok {
			return fmt.Errorf("%s cannot be set", binary.FuelName)
		}
		in.world.Meter(fuel)
	}
	if in.plugin.guest.Command {
		in.probe = module.ExportedFunction(abi.ExportStart)
		return in.callFirst(ctx, binary.StartName)
	}
	in.findProbe()
	for _, name := range in.plugin.module.Globals {
		g, ok := module.ExportedGlobal(name).(api.MutableGlobal)
		if !ok {
			return fmt.Errorf("%s cannot be set", name)
		}
		in.globals = append(in.globals, g)
	}
	if in.plugin.image != nil {
		return in.assume(in.plugin.image)
	}
	if err := in.callFirst(ctx, binary.StartName); err != nil {
		return err
	}
	return in.callFirst(ctx, abi.ExportInitialize)
}

// callFirst calls an export that runs before all others, if the guest has it. It does nothing for
// Host.Check.
func (in *instance) callFirst(ctx context.Context, name string) error {
	fn := in.module.ExportedFunction(name)
	if fn == nil || in.plugin.static {
		return nil
	}
	if err := in.world.Enter(ctx, fn, nil); err != nil {
		fault := in.fault(err, probe.ReasonInstantiate)
		fault.Err = fmt.Errorf("%s: %w", name, fault.Err)
		return fault
	}
	return nil
}

// assume puts a new instance into the state of the image.
func (in *instance) assume(from *image) error {
	if missing := from.Size() - int(in.module.Memory().Size()); missing > 0 {
		if _, ok := in.module.Memory().Grow(uint32(missing / binary.PageSize)); !ok {
			return ErrNoInstance
		}
	}
	if !from.Assume(in.memory, in.bytes()) {
		return ErrNoInstance
	}
	in.restoreGlobals(from)
	return nil
}

// takeImage returns the state of the instance as an image. The instance itself continues as if it
// was made from the image.
func (in *instance) takeImage() (*image, error) {
	taken := &image{Image: memory.NewImage(in.memory, in.bytes())}
	if taken.Image == nil {
		return nil, ErrNoInstance
	}
	for _, g := range in.globals {
		taken.globals = append(taken.globals, g.Get())
	}
	return taken, nil
}

// bytes returns the whole memory of the guest.
func (in *instance) bytes() []byte {
	memory := in.module.Memory()
	all, _ := memory.Read(0, memory.Size())
	return all
}

// restore puts memory and globals back into the state of the image. If it returns false, the
// instance must not be used again.
func (in *instance) restore(to *image) bool {
	if !to.Restore(in.memory, in.bytes()) {
		return false
	}
	in.restoreGlobals(to)
	return true
}

func (in *instance) restoreGlobals(to *image) {
	for i, g := range in.globals {
		g.Set(to.globals[i])
	}
}

// worn reports whether the instance must be replaced: it reached the limit of calls, or its memory
// grew. A reset cannot shrink the memory, and the guest could see the larger size.
func (in *instance) worn() bool {
	if in.calls >= in.plugin.guest.Limits.Calls {
		in.plugin.guest.Hits[plugin.LimitCalls].Add(1)
		return true
	}
	size := int(in.module.Memory().Size())
	if in.plugin.reset {
		return size > in.plugin.image.Size()
	}
	return size > 2*in.plugin.size0
}

// run calls fn for c. After an error the instance must not be used again.
func (in *instance) run(c *call, fn api.Function) (code int32, err error) {
	in.world.Begin(&c.Call)
	in.calls++
	in.memory.Begin()
	in.stack[0] = 0
	err = in.world.Enter(c.Context(), fn, in.stack[:])
	in.shrinkStack()
	in.world.Flush()
	if in.memory.Refused() {
		c.Hit(plugin.LimitMemory)
	}
	if in.memory.Starved() {
		c.Hit(plugin.LimitTotalMemory)
	}
	if in.plugin.guest.Command {
		if code, ok := in.world.Exited(err); ok {
			return code, nil
		}
	}
	if err != nil {
		return 0, in.fault(err, probe.ReasonTrap)
	}
	return int32(in.stack[0]), nil
}

// fault returns the error of a guest's call with a reason.
func (in *instance) fault(err error, reason probe.Reason) *probe.Error {
	in.world.Flush()
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = strings.TrimSuffix(text, " (recovered by wazero)")
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		text = fmt.Sprintf("exited with code %d", exit.ExitCode())
	}
	frames := in.world.Frames(err)
	if line := in.world.FaultLine(); line != "" {
		text += ": " + line
	} else if len(frames) > 0 && !strings.HasPrefix(frames[0], "$") { // a function without a name
		text += " in " + frames[0]
	}
	in.traceFault(text, frames)
	switch {
	case errors.Is(err, guest.ErrStack):
		text = guest.ErrStack.Error()
		reason = probe.ReasonMemory
	case in.memory.Refused() || in.memory.Starved():
		text = fmt.Sprintf("needs more than %d bytes of memory: %s", in.memory.Limit(), text)
		if reason == probe.ReasonTrap {
			reason = probe.ReasonMemory
		}
	}
	return &probe.Error{Reason: reason, Err: errors.New(text)}
}

// traceFault traces why the guest ended and where, one frame an event.
func (in *instance) traceFault(text string, frames []string) {
	c := in.world.Call()
	if c.Ended() != nil {
		return
	}
	c.Trace(probe.TraceEvent{Type: probe.TraceLog, Name: "trap", Detail: text})
	for _, frame := range frames {
		c.Trace(probe.TraceEvent{Type: probe.TraceLog, Name: "trap", Detail: "at " + frame})
	}
}

// noteWritten adds the pages that a discarded instance has written to the estimate of the image.
func (in *instance) noteWritten() {
	if in.plugin.image != nil {
		in.plugin.image.Note(in.memory, in.bytes())
	}
}

func (in *instance) close() {
	if in.module != nil {
		in.plugin.host.cfg.Coverage.add(in.plugin.module, in.module)
		_ = in.module.Close(context.Background())
	}
	in.memory.Release()
}

// shrinkStack frees a large stack after a call. The next call begins with a small one.
func (in *instance) shrinkStack() {
	if !in.plugin.guest.Command && in.probeStack.Size() > memory.FreeStack {
		in.findProbe()
	}
	in.memory.DropStack()
}

// findProbe sets the function probe. The new function has a small stack.
func (in *instance) findProbe() {
	in.probe = in.module.ExportedFunction(abi.ExportProbe)
	in.probeStack = memory.StackOf(in.probe)
}
