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

// instance is one live copy of a plugin's module. It belongs to whoever took it from
// the plugin: one call at a time.
type instance struct {
	plugin    *Handler
	module    api.Module
	probe     api.Function
	memory    *memory.Memory
	globals   []api.MutableGlobal // in the order of the module's
	rests     bool                // it has given back its pages since it was used last
	calls     int
	idleSince time.Time // when it was given back
	world     *guest.World
}

// image is the state of an instance after _initialize. Every further instance of the
// plugin begins with it, and every reset goes back to it. It is read-only.
type image struct {
	*memory.Image
	globals []uint64
}

// newInstance makes an instance. ctx bounds what of the guest runs for that. of is the
// attempt that it is for, nil while the plugin is loaded.
func (p *Handler) newInstance(ctx context.Context, of *call) (_ *instance, err error) {
	in := &instance{plugin: p}
	if in.memory, err = memory.New(p.host.budget, p.initialMemory(), uint64(p.guest.Limits.Memory)); err != nil {
		p.guest.Hits[plugin.LimitTotalMemory].Add(1)
		if err == memory.ErrNoRoom {
			return nil, ErrNoInstance
		}
		return nil, fmt.Errorf("%w: %w", ErrNoInstance, err) // the system has no room
	}
	if of != nil {
		in.memory.Hold(of.holds)
	}
	starting := guest.NewStart(ctx, &p.guest)
	in.world = guest.NewWorld(&p.guest, in.memory)
	in.world.Begin(starting)
	started := false
	defer func() {
		starting.Release()
		if !started {
			in.close()
		}
	}()
	if err = in.start(experimental.WithMemoryAllocator(guest.WithCall(ctx, starting), in.memory), of); err == nil {
		in.memory.DropStack()
		started = true
		return in, nil
	}
	if of != nil && in.memory.Starved() { // by other instances: it says nothing of the plugin
		of.Hit(plugin.LimitTotalMemory)
		err = ErrNoInstance
	}
	return nil, err
}

// initialMemory is what a new instance is counted with.
func (p *Handler) initialMemory() memory.Amount {
	if p.image == nil {
		return memory.Whole(p.module.MinMemory)
	}
	return p.image.Initial()
}

// start instantiates the module and brings it to the state after _initialize.
func (in *instance) start(ctx context.Context, of *call) error {
	module, err := in.plugin.runtime.InstantiateModule(ctx, in.plugin.compiled, in.world.Config(of.attempt()))
	if err != nil {
		return in.fault(err, probe.ReasonInstantiate)
	}
	in.module = module
	if in.plugin.guest.Command {
		in.probe = module.ExportedFunction(abi.ExportStart)
		return in.first(ctx, binary.StartName)
	}
	in.probe = module.ExportedFunction(abi.ExportProbe)
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
	if err := in.first(ctx, binary.StartName); err != nil {
		return err
	}
	return in.first(ctx, abi.ExportInitialize)
}

// first calls what a guest does first, if it exports it.
func (in *instance) first(ctx context.Context, name string) error {
	fn := in.module.ExportedFunction(name)
	if fn == nil {
		return nil
	}
	if err := in.world.Enter(ctx, fn, nil); err != nil {
		fault := in.fault(err, probe.ReasonInstantiate)
		fault.Err = fmt.Errorf("%s: %w", name, fault.Err)
		return fault
	}
	return nil
}

// assume puts a new instance into the state of an image.
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

// takeImage copies the state of the instance, which goes on as one that was made of
// the image.
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

// bytes is the whole of the guest's memory.
func (in *instance) bytes() []byte {
	memory := in.module.Memory()
	all, _ := memory.Read(0, memory.Size())
	return all
}

// restore puts memory and globals back to an image; what has grown is zeroed. It
// reports false where it could not: the instance must go then.
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

// rest gives back memory of an instance that was restored and will hardly be used soon.
func (in *instance) rest() {
	if !in.rests {
		in.rests = true
		in.plugin.image.Rest(in.memory, in.bytes())
	}
}

// worn reports whether it is time for a new instance. A guest sees how large its memory
// is, and nothing makes it smaller again: one that has grown cannot be reset.
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

// run calls fn for c. An error means that the instance must go.
func (in *instance) run(c *call, fn api.Function) (code int32, err error) {
	in.world.Begin(c.Call)
	in.calls++
	in.rests = false
	in.memory.Begin()
	stack := [1]uint64{}
	err = in.world.Enter(c.Context(), fn, stack[:])
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
	return int32(stack[0]), nil
}

// fault gives the error of a guest's call its reason.
func (in *instance) fault(err error, reason probe.Reason) *probe.Error {
	in.world.Flush()
	if in.world.Call().Ended() == nil {
		in.world.Call().Trace(probe.TraceEvent{Type: probe.TraceLog, Name: "trap", Detail: err.Error()})
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = strings.TrimSuffix(text, " (recovered by wazero)")
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		text = fmt.Sprintf("exited with code %d", exit.ExitCode())
	}
	if said := in.world.Said(); said != "" {
		text += ": " + said
	}
	switch {
	case errors.Is(err, guest.ErrStack):
		text = guest.ErrStack.Error()
		reason = probe.ReasonMemory
	case in.memory.Refused() || in.memory.Starved():
		text = fmt.Sprintf("wants more than %d bytes of memory: %s", in.memory.Limit(), text)
		if reason == probe.ReasonTrap {
			reason = probe.ReasonMemory
		}
	}
	return &probe.Error{Reason: reason, Err: errors.New(text)}
}

// look notes what a mapped instance that is not used again has written to.
func (in *instance) look() {
	if in.plugin.image != nil {
		in.plugin.image.Note(in.memory, in.bytes())
	}
}

func (in *instance) close() {
	if in.module != nil {
		_ = in.module.Close(context.Background())
	}
	in.memory.Release()
}

// shrinkStack gives back the stack of a call that has ended: the next one begins with a
// small one.
func (in *instance) shrinkStack() {
	if !in.plugin.guest.Command && memory.StackOf(in.probe) > memory.FreeStack {
		in.probe = in.module.ExportedFunction(abi.ExportProbe)
	}
	in.memory.DropStack()
}
