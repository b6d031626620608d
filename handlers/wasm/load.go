package wasm

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/handlers/wasm/internal/guest"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Load compiles the module of a plugin, tries it, and returns it as a handler, which the
// caller closes. If found has no manifest it is read from the module. The plugin may reach its
// target, and what it requests as far as the grants cover it. The error of a module that
// cannot be run has the reason "instantiate", and of one that lacks a grant "denied".
func (h *Host) Load(ctx context.Context, found plugin.Found) (*Handler, error) {
	if found.Manifest == nil {
		var err error
		if found.Manifest, err = plugin.ReadModule("module", found.Module); err != nil {
			return nil, err
		}
	}
	p, err := h.admit(found)
	if err == nil {
		err = p.load(ctx)
	}
	if err != nil {
		p.closeRuntime()
		return nil, attempt.LoadError(found.Manifest.Name, err)
	}
	return p, nil
}

// Admit returns the error that [Host.Load] would return for found, as far as that is known
// without compiling or running anything: a capability that is not granted, an import that
// prober does not have, an export with another signature, a limit that the module exceeds.
func Admit(found plugin.Found) error {
	_, err := new(Host).admit(found)
	if err == nil {
		err = errors.Join(plugin.CheckContract(found.Module, found.Manifest)...)
	}
	if err != nil {
		return attempt.LoadError(found.Manifest.Name, err)
	}
	return nil
}

// admit checks a module against limits and grants before it is compiled.
func (h *Host) admit(found plugin.Found) (p *Handler, err error) {
	p = &Handler{host: h, guest: guest.Plugin{Host: &h.guests, Manifest: found.Manifest, Digest: plugin.Digest(found.Module)}}
	p.resolveLimits(found.Limits)
	switch r := p.guest.Manifest.Runtime; {
	case r != "" && r != plugin.Wasm:
		return p, fmt.Errorf("its runtime is %s: it is no module", r)
	case len(found.Module) > p.guest.Limits.Module:
		return p, fmt.Errorf("module of %d bytes; at most %d are allowed", len(found.Module), p.guest.Limits.Module)
	case p.guest.Manifest.Isolation == plugin.Pooled && !p.guest.Manifest.Stateful:
		return p, errors.New("isolation pooled is for plugins whose manifest says stateful: true")
	}
	if p.guest.Permissions, err = egress.NewPermissions(p.guest.Manifest.Requests, found.Grants); err != nil {
		return p, err
	}
	if p.module, err = binary.Inspect(found.Module, uint32(p.guest.Limits.TableEntries)); err != nil {
		return p, err
	}
	if err := p.guest.Permissions.CheckImports(p.module.Imports); err != nil {
		return p, err
	}
	if p.module.MinMemory > uint64(p.guest.Limits.Memory) {
		return p, &probe.Error{Reason: probe.ReasonMemory, Err: fmt.Errorf("the module begins with %d bytes of memory; at most %d are allowed",
			p.module.MinMemory, p.guest.Limits.Memory)}
	}
	return p, nil
}

// load makes a plugin ready that has been admitted.
func (p *Handler) load(ctx context.Context) error {
	if err := p.host.keepCache(); err != nil {
		return err
	}
	defer p.host.leaveCache()
	if err := p.compile(ctx); err != nil {
		return err
	}
	if err := p.checkABI(); err != nil {
		return err
	}
	timeout := startTimeout
	if p.host.cfg.Interpreter {
		timeout = interpretedStart
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no end after %v", timeout))
	defer cancel()
	if err := p.guest.Instantiate(ctx, p.runtime, p.module.Imports); err != nil {
		return err
	}
	return p.tryOut(ctx)
}

// tryOut makes the first instance, and the image that the others are made of.
func (p *Handler) tryOut(ctx context.Context) error {
	in, err := p.newInstance(ctx, nil)
	if ctx.Err() != nil { // how the guest was ended says nothing, and one that was not may have been closed
		if err == nil {
			in.close()
		}
		err = p.whileStarting(context.Cause(ctx))
	}
	if err != nil {
		return crowded(err)
	}
	p.size0 = int(in.module.Memory().Size())
	if !p.module.Volatile && !p.guest.Command {
		p.image, err = in.takeImage()
	}
	p.pooled = p.guest.Manifest.Isolation == plugin.Pooled
	p.reset = p.guest.Manifest.Isolation == plugin.Reset && !p.module.Volatile && !p.guest.Command
	p.live++
	p.flying.Add(1) // until the instance is given back: the host may be closed meanwhile
	defer p.flying.Done()
	if err == nil {
		err = p.host.add(p)
	}
	if err != nil {
		in.close()
		return crowded(err)
	}
	p.give(in, true)
	return nil
}

// whileStarting says of an error in what of the guest's it came.
func (p *Handler) whileStarting(err error) error {
	if p.guest.Command || p.compiled.ExportedFunctions()[abi.ExportInitialize] == nil {
		return err
	}
	return fmt.Errorf("%s: %w", abi.ExportInitialize, err)
}

// crowded says of the error of a first instance what the operator can do about it.
func crowded(err error) error {
	if err == ErrNoInstance { // and no more than that: the system would say so itself
		return fmt.Errorf("%w: totalMemory, which all plugins share, leaves no room for its first", err)
	}
	return err
}

// compile makes native code of the module. It takes seconds for a guest of Go that
// is not in the cache. When ctx ends a compiler of its own is ended, and a compilation in
// this process is left to itself.
func (p *Handler) compile(ctx context.Context) error {
	slot, err := p.host.beginCompilation(ctx)
	if err != nil {
		return err
	}
	var made compilation // the goroutine's, until it says done
	done, gone := make(chan struct{}), ctx.Done()
	p.host.compilers.Go(func() {
		made = compileModule(ctx, p.host, p.module)
		select {
		case done <- struct{}{}: // to who waits
		case <-gone:
			made.close()
			p.host.endCompilation(slot)
		}
	})
	select {
	case <-done:
		p.host.endCompilation(slot)
		p.runtime, p.compiled, p.module.Code = made.runtime, made.module, nil
		p.module.Volatile = p.module.Volatile || made.volatile
		return made.err
	case <-gone:
		return context.Cause(ctx)
	}
}

// compilation is a module with the runtime that it was compiled for.
type compilation struct {
	runtime  wazero.Runtime
	module   wazero.CompiledModule
	volatile bool // wazero found more in it than inspect
	err      error
}

func (c *compilation) close() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if c.module != nil {
		_ = c.module.Close(ctx)
	}
	if c.runtime != nil {
		_ = c.runtime.Close(ctx)
	}
}

// compileModule heeds ctx until it compiles in this process: wazero heeds none.
func compileModule(ctx context.Context, h *Host, m *binary.Module) compilation {
	if err := h.compileApart(ctx, m); err != nil {
		return compilation{err: err}
	}
	ctx = context.WithoutCancel(ctx)
	return compileFor(m, func(features api.CoreFeatures) compilation { return compileWith(ctx, h, features, m.Code) })
}

// compileFor compiles m with the features that it may have. Where it is to be reset, those
// are the ones that inspect has found, and no others: wazero itself then sees to it that no
// table.set hides in what inspect has read as something else. One that needs more is
// volatile.
func compileFor(m *binary.Module, compile func(api.CoreFeatures) compilation) compilation {
	if !m.Volatile {
		made := compile(api.CoreFeaturesV1 | api.CoreFeatureMultiValue | m.Features)
		if made.err == nil {
			return made
		}
		made.close()
	}
	made := compile(api.CoreFeaturesV2)
	made.volatile = true
	return made
}

// compilerConfig is that of a runtime that compiles.
func compilerConfig(features api.CoreFeatures) wazero.RuntimeConfig {
	// Without WithCloseOnContextDone a guest that loops freezes the whole process at
	// the next garbage collection.
	return wazero.NewRuntimeConfig().WithCoreFeatures(features).WithCloseOnContextDone(true).WithDebugInfoEnabled(false)
}

func compileWith(ctx context.Context, h *Host, features api.CoreFeatures, code []byte) compilation {
	config := compilerConfig(features)
	if h.cfg.Interpreter {
		config = wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(features).WithCloseOnContextDone(true).WithDebugInfoEnabled(false)
	}
	made, reason := compileCached(ctx, h, config, code)
	if reason == nil {
		return made
	}
	if made.err != nil {
		made.close()
		made = compileIn(ctx, wazero.NewRuntimeWithConfig(ctx, config), code)
	}
	if made.err == nil {
		h.cfg.Logger.WarnContext(ctx, "a compiled plugin cannot be kept in the cache folder, or read from it", "error", reason.Error())
	}
	return made
}

// compileCached compiles with the cache. A cache that cannot be written or read fails good
// modules: reason is why, where the module is good nevertheless or may be.
func compileCached(ctx context.Context, h *Host, config wazero.RuntimeConfig, code []byte) (made compilation, reason error) {
	if err := h.remakeCache(); err != nil {
		return compilation{err: err}, err
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, config.WithCompilationCache(h.cache))
	if made = compileIn(ctx, runtime, code); made.err == nil {
		return made, nil
	}
	// One that was compiled, and not kept, is in wazero's memory by now.
	return compileIn(ctx, runtime, code), made.err
}

func compileIn(ctx context.Context, runtime wazero.Runtime, code []byte) (made compilation) {
	defer func() {
		if r := recover(); r != nil {
			made.err = fmt.Errorf("compile: %v", r)
		}
	}()
	made.runtime = runtime
	if made.module, made.err = runtime.CompileModule(ctx, code); made.err != nil {
		made.err = fmt.Errorf("compile: %w", made.err)
	}
	return made
}

// checkABI holds the module's imports and exports against the contract.
func (p *Handler) checkABI() error {
	g := p.contract()
	p.guest.Command = g.Command(p.guest.Manifest.Mode == plugin.Command)
	if errs := g.Check(p.guest.Command); len(errs) > 0 {
		return errs[0]
	}
	if start := g.Exports[binary.StartName]; len(start.Params)+len(start.Results) > 0 {
		return errors.New("the start function takes or returns something")
	}
	if p.guest.Command && p.guest.Manifest.Isolation == plugin.Pooled {
		return errors.New("isolation pooled is for reactors: a command has a new instance each time")
	}
	return nil
}

// contract returns what the compiled module imports and exports.
func (p *Handler) contract() *abi.Guest {
	g := &abi.Guest{
		Exports: make(map[string]abi.Signature),
		Memory:  p.compiled.ExportedMemories()[abi.ExportMemory] != nil,
	}
	for _, def := range p.compiled.ImportedFunctions() {
		module, name, _ := def.Import()
		g.Imports = append(g.Imports, abi.Func{Module: module, Name: name, Params: abiTypes(def.ParamTypes()), Results: abiTypes(def.ResultTypes())})
	}
	for name, def := range p.compiled.ExportedFunctions() {
		g.Exports[name] = abi.Signature{Params: abiTypes(def.ParamTypes()), Results: abiTypes(def.ResultTypes())}
	}
	return g
}

func abiTypes(types []api.ValueType) []abi.Type {
	names := make([]abi.Type, len(types))
	for i, t := range types {
		names[i] = abi.Type(api.ValueTypeName(t))
	}
	return names
}
