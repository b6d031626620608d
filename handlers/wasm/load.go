package wasm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/handlers/wasm/internal/compiled"
	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/handlers/wasm/internal/guest"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/wasmfile"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Load compiles the module of a plugin, makes its first instance, and returns the plugin as a
// handler, which the caller closes. If found has no manifest, Load reads it from the module. The
// reason of the error is "denied" if a grant is missing, and usually "instantiate" otherwise.
func (h *Host) Load(ctx context.Context, found plugin.Found) (*Handler, error) {
	return h.load(ctx, found, false)
}

// Check reports the errors of [Host.Load] that can be found without running the module. It compiles
// and links the module, and calls none of its functions. A module that Check accepts may still fail
// in its start function or in _initialize.
func (h *Host) Check(ctx context.Context, found plugin.Found) error {
	p, err := h.load(ctx, found, true)
	if err != nil {
		return err
	}
	return p.Close()
}

// load implements [Host.Load], and [Host.Check] if static is set.
func (h *Host) load(ctx context.Context, found plugin.Found, static bool) (*Handler, error) {
	if found.Manifest == nil {
		var err error
		if found.Manifest, err = plugin.ReadModule("module", found.Module); err != nil {
			return nil, err
		}
	}
	p, err := h.admit(found)
	if err == nil {
		p.static = static
		err = p.load(ctx, found.Module)
	}
	if err != nil {
		p.closeRuntime()
		return nil, attempt.LoadError(found.Manifest.Name, err)
	}
	return p, nil
}

// admit checks a module against limits, grants and the contract before it is compiled. It returns a
// handler even with an error.
func (h *Host) admit(found plugin.Found) (p *Handler, err error) {
	p = &Handler{host: h, guest: guest.Plugin{Host: &h.guests, Manifest: found.Manifest, Digest: found.ModuleDigest()}}
	p.guest.Limits = plugin.Resolve(p.guest.Manifest.Limits, found.Limits)
	p.guest.Limits.Memory &^= binary.PageSize - 1
	p.instances = sched.NewQuota(uint64(p.guest.Limits.Instances))
	switch r := p.guest.Manifest.Runtime; {
	case r != "" && r != plugin.Wasm:
		return p, fmt.Errorf("its runtime is %s, not wasm", r)
	case len(found.Module) > p.guest.Limits.Module:
		return p, fmt.Errorf("module of %d bytes; at most %d are allowed", len(found.Module), p.guest.Limits.Module)
	case p.guest.Manifest.Isolation == plugin.Pooled && !p.guest.Manifest.Stateful:
		return p, errors.New("isolation pooled requires stateful: true in the manifest")
	}
	if p.guest.Permissions, err = egress.NewPermissions(p.guest.Manifest.Requests, found.Grants); err != nil {
		return p, err
	}
	p.guest.Features = p.guest.Permissions.Features()
	if h.cfg.ShowOutput {
		p.guest.Features = append(slices.Clip(p.guest.Features), abi.FeatureOutput)
	}
	p.stubName = compiled.Name(p.guest.Digest, p.tableEntries(), !h.cfg.Checks)
	if p.module = h.readStub(p.stubName); p.module != nil {
		p.isStub = true
	} else if p.module, err = p.inspect(found.Module); err != nil {
		return p, err
	}
	if err := p.guest.Permissions.CheckImports(p.module.Imports); err != nil {
		return p, err
	}
	if p.module.MinMemory > uint64(p.guest.Limits.Memory) {
		return p, &probe.Error{Reason: probe.ReasonMemory, Err: fmt.Errorf("the module begins with %d bytes of memory; at most %d are allowed",
			p.module.MinMemory, p.guest.Limits.Memory)}
	}
	return p, p.checkContract(found.Module)
}

// tableEntries returns the limit that [binary.Inspect] gets.
func (p *Handler) tableEntries() uint32 { return uint32(p.guest.Limits.TableEntries) }

func (p *Handler) inspect(code []byte) (*binary.Module, error) {
	m, err := binary.InspectCounting(code, p.tableEntries(), p.host.cfg.Coverage.counting())
	if err == nil && p.host.cfg.Checks {
		m = m.Plain("the host meters no module")
	}
	return m, err
}

// checkContract compares the imports and exports of the module with the contract.
func (p *Handler) checkContract(module []byte) error {
	g, err := wasmfile.Guest(module)
	if err != nil {
		return err
	}
	p.guest.Command = g.Command(p.guest.Manifest.Mode == plugin.Command)
	_, p.hasInitialize = g.Exports[abi.ExportInitialize]
	_, p.hasValidate = g.Exports[abi.ExportValidateConfig]
	if err := errors.Join(g.Check(p.guest.Command)...); err != nil {
		return err
	}
	if p.guest.Command && p.guest.Manifest.Isolation == plugin.Pooled {
		return errors.New("isolation pooled is for reactors: a command has a new instance each time")
	}
	return nil
}

// load compiles a plugin that was admitted, and makes its first instance.
func (p *Handler) load(ctx context.Context, code []byte) error {
	if err := p.host.acquireCache(); err != nil {
		return err
	}
	defer p.host.releaseCache()
	if done, err := p.loadCached(ctx, code); err != nil {
		return err
	} else if !done {
		if err := p.compileMetered(ctx); err != nil {
			return err
		}
	}
	if !p.module.Metered {
		p.host.cfg.Logger.InfoContext(ctx, "a plugin is not metered: termination checks end its guests", "handler", p.guest.Manifest.Name, "reason", p.module.Unmetered)
	}
	timeout := startTimeout
	if p.host.cfg.Interpreter {
		timeout = interpretedStart
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no end after %v", timeout))
	defer cancel()
	if err := p.guest.AddImports(ctx, p.runtime, p.module.Imports); err != nil {
		return err
	}
	if p.module.Metered {
		if err := guest.AddFuel(ctx, p.runtime); err != nil {
			return err
		}
	}
	return p.makeFirst(ctx)
}

// makeFirst makes the first instance, and the image from which the others are made.
func (p *Handler) makeFirst(ctx context.Context) error {
	in, err := p.newInstance(ctx, nil)
	if deadline, ok := ctx.Deadline(); err != nil && ok && !time.Now().Before(deadline) {
		<-ctx.Done() // a guest may be unwound before the timer of a busy host fires
	}
	if ctx.Err() != nil { // wazero may have closed the instance even if the guest returned
		if err == nil {
			in.close()
		}
		if err = context.Cause(ctx); p.hasInitialize && !p.guest.Command {
			err = fmt.Errorf("%s: %w", abi.ExportInitialize, err)
		}
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
	p.inUse.Add(1) // until the instance is released: the host may be closed before
	defer p.inUse.Done()
	if err == nil {
		err = p.host.add(p)
	}
	if err != nil {
		in.close()
		return crowded(err)
	}
	p.keepOrClose(in, true, p.host.cfg.Clock.Now())
	return nil
}

// crowded adds to ErrNoInstance that totalMemory is used up. It returns other errors unchanged.
func crowded(err error) error {
	if err == ErrNoInstance { // not one that wraps the system's error
		return fmt.Errorf("%w: totalMemory, which all plugins share, leaves no room for its first", err)
	}
	return err
}

// loadCached takes the compiled module from the cache, and reports whether it was there. It does
// not wait while other modules are compiled.
func (p *Handler) loadCached(ctx context.Context, code []byte) (done bool, err error) {
	h := p.host
	if !h.stubs() {
		return false, nil
	}
	if p.isStub {
		if p.take(h.loadStub(ctx, p.module)) {
			return true, nil
		}
		if p.module, err = p.inspect(code); err != nil {
			return false, err
		}
		p.isStub = false
	}
	stub, err := compiled.Stub(p.module)
	if err != nil {
		return false, err
	}
	if done = p.take(h.loadStub(ctx, stub)); done { // an earlier version of Inspect found the same
		_ = compiled.Write(stubPath(h.cacheFolder, p.stubName), stub) // without it the module is inspected again
	}
	return done, nil
}

// take sets the compiled module of the plugin to made, and reports whether made has no error.
func (p *Handler) take(made compilation) bool {
	if made.err != nil {
		made.close()
		return false
	}
	p.runtime, p.compiled = made.runtime, made.module
	p.module = p.module.WithCode(nil)
	p.module.Volatile = p.module.Volatile || made.volatile
	return true
}

// compileMetered compiles the module. If wazero does not compile it metered, it is compiled
// without meters.
func (p *Handler) compileMetered(ctx context.Context) error {
	err := p.compile(ctx)
	if _, tooMuch := errors.AsType[*errTooMuch](err); err == nil || tooMuch || ctx.Err() != nil || !p.module.Metered {
		return err
	}
	p.module = p.module.Plain(err.Error())
	return p.compile(ctx)
}

// compile compiles the module, which takes seconds for a Go guest. When ctx ends, a compiler
// process is killed, and a compilation in this process is abandoned.
func (p *Handler) compile(ctx context.Context) error {
	h := p.host
	select {
	case h.compiling <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := h.compileApart(ctx, p.stubName, p.module)
	if err == nil {
		err = h.acquireCache()
	}
	if err != nil {
		<-h.compiling
		return err
	}
	made := make(chan compilation)
	go func() {
		m := h.compileModule(context.WithoutCancel(ctx), p.stubName, p.module)
		<-h.compiling
		select {
		case made <- m:
		case <-ctx.Done():
			m.close()
		}
		_ = h.releaseCache() // nobody waits for its error
	}()
	select {
	case m := <-made:
		p.take(m)
		return m.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// compilation is a compiled module and its runtime.
type compilation struct {
	runtime  wazero.Runtime
	module   wazero.CompiledModule
	volatile bool // the module needs features that binary.Inspect did not find
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

// compileModule takes a module from the cache, where another process may have put it, or compiles
// it. If the result cannot be written to the cache, the module is compiled without the cache: a fault
// of the cache must not fail a good module.
func (h *Host) compileModule(ctx context.Context, name string, m *binary.Module) compilation {
	engine := wazero.NewRuntimeConfig()
	if h.cfg.Interpreter {
		engine = wazero.NewRuntimeConfigInterpreter()
	}
	var failed error
	if h.stubs() {
		made := h.loadStub(ctx, h.readStub(name))
		if made.err != nil {
			failed = h.compileToCache(name, m)
			made = h.loadStub(ctx, h.readStub(name))
		}
		if made.err == nil {
			return made
		}
		made.close()
		failed = cmp.Or(failed, made.err)
	}
	made := compileFor(m, func(features api.CoreFeatures) compilation {
		config := compilerConfig(engine, features, m.Metered)
		if !h.stubs() {
			config = config.WithCompilationCache(h.cache)
		}
		return compileIn(h.cfg.Coverage.observed(ctx, m), config, m.Code)
	})
	if made.err == nil && failed != nil {
		h.cfg.Logger.WarnContext(ctx, "a compiled plugin cannot be kept in the cache folder, or read from it", "error", failed.Error())
	}
	return made
}

// compileFor compiles m. It first enables only the features that [binary.Inspect] found, so that
// wazero refuses, for example, a table.set that the scan missed. A module that needs more features is
// compiled with all, and is volatile: it cannot be reset.
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

// compilerConfig adds to engine the settings that all modules need. wazero's cache distinguishes
// modules with and without WithCloseOnContextDone.
func compilerConfig(engine wazero.RuntimeConfig, features api.CoreFeatures, metered bool) wazero.RuntimeConfig {
	// A guest that loops, without meters and WithCloseOnContextDone, would freeze the whole
	// process at the next garbage collection.
	return engine.WithCoreFeatures(features).WithCloseOnContextDone(!metered).WithDebugInfoEnabled(false)
}

func compileIn(ctx context.Context, config wazero.RuntimeConfig, code []byte) (made compilation) {
	defer func() {
		if r := recover(); r != nil {
			made.err = fmt.Errorf("compile: %v", r)
		}
	}()
	made.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if made.module, made.err = made.runtime.CompileModule(ctx, code); made.err != nil {
		made.err = fmt.Errorf("compile: %w", made.err)
	}
	return made
}
