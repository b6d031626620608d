package wasm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// skipped is the error of an attempt that got no instance to run in. It says nothing
// of the target and nothing of the plugin, and is not worth another try at once.
type skipped struct{ text string }

func (e *skipped) Error() string { return e.text }

// Skipped marks the error for whoever cannot import this package: the attempt never
// began, so the tick is to be counted as skipped.
func (e *skipped) Skipped() bool { return true }

// ErrNoInstance means that no instance of the plugin could be had: the memory budget
// or the plugin's limit is used up by attempts in flight, or the deadline came
// before a place was free. It has a method Skipped() bool that returns true.
var ErrNoInstance error = errNoInstance

var (
	errNoInstance = &skipped{"no instance of the plugin is free"}
	errClosed     = errors.New("the plugin has been closed")
)

// Handler is a loaded plugin. It is safe for concurrent use.
type Handler struct {
	host      *Host
	manifest  *plugin.Manifest
	digest    string
	module    *module
	runtime   wazero.Runtime
	compiled  wazero.CompiledModule
	memoryCap uint64
	image     *image // of the first instance; nil where the module is volatile
	reset     bool   // instances are used again after a reset

	mu       sync.Mutex
	idle     []*instance // the one used last is at the end
	live     int         // instances, idle or not
	flying   sync.WaitGroup
	closed   bool
	evicting *time.Timer // closes what has been idle for long
}

var _ probe.Preparer = (*Handler)(nil)

// Load compiles a module, tries it, and returns it as a handler, which the caller
// closes. manifest may be nil: then it is read from the module itself. The error of a
// module that cannot be run has the reason "instantiate".
func (h *Host) Load(ctx context.Context, code []byte, manifest *plugin.Manifest) (*Handler, error) {
	if len(code) > plugin.MaxModule {
		return nil, fmt.Errorf("module of %d bytes; at most %d are allowed", len(code), plugin.MaxModule)
	}
	if manifest == nil {
		var err error
		if manifest, err = plugin.ReadModule("module", code); err != nil {
			return nil, err
		}
	}
	p := &Handler{host: h, manifest: manifest, digest: plugin.Digest(code)}
	if err := p.load(ctx, code); err != nil {
		p.closeRuntime()
		if _, ok := errors.AsType[*probe.Error](err); !ok {
			err = &probe.Error{Reason: probe.ReasonInstantiate, Err: err}
		}
		return nil, fmt.Errorf("plugin %q: %w", manifest.Name, err)
	}
	return p, nil
}

func (p *Handler) load(ctx context.Context, code []byte) (err error) {
	if p.manifest.Mode == plugin.Command {
		return errors.New("mode command is not supported by this version of prober")
	}
	if p.manifest.Isolation == plugin.Pooled {
		return errors.New("isolation pooled is not supported by this version of prober")
	}
	if p.module, err = inspect(code, p.host.cfg.TableEntries); err != nil {
		return err
	}
	p.memoryCap = min(cmp.Or(p.manifest.Limits.Memory, p.host.cfg.Memory), p.host.cfg.Memory) &^ (pageSize - 1)
	if p.module.minMemory > p.memoryCap {
		return &probe.Error{Reason: probe.ReasonMemory, Err: fmt.Errorf("the module begins with %d bytes of memory; at most %d are allowed",
			p.module.minMemory, p.memoryCap)}
	}
	if err := p.compile(ctx); err != nil {
		return err
	}
	if err := p.checkABI(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.instantiateHost(ctx); err != nil {
		return err
	}
	in, err := p.newInstance(ctx)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if !p.module.volatile {
		if p.image, err = in.takeImage(); err != nil {
			in.close()
			return err
		}
		p.reset = p.manifest.Isolation == plugin.Reset
	}
	p.live++
	p.give(in, true)
	return p.host.add(p)
}

// compile makes native code of the module. It takes seconds for a guest of Go that
// is not in the cache, and heeds no context.
func (p *Handler) compile(ctx context.Context) (err error) {
	p.host.compiling.Lock()
	defer p.host.compiling.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("compile: %v", r)
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	config := wazero.NewRuntimeConfig()
	if p.host.cfg.Interpreter {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	// Without WithCloseOnContextDone a guest that loops freezes the whole process at
	// the next garbage collection.
	config = config.WithCloseOnContextDone(true).WithDebugInfoEnabled(false).WithCompilationCache(p.host.cache)
	p.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if p.compiled, err = p.runtime.CompileModule(ctx, p.module.bytes); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	return nil
}

// checkABI holds the module's imports and exports against the contract.
func (p *Handler) checkABI() error {
	known := make(map[string]abi.Func)
	for _, f := range abi.Imports() {
		known[f.Module+"."+f.Name] = f
	}
	for _, def := range p.compiled.ImportedFunctions() {
		module, name, _ := def.Import()
		if module == wasiModule {
			continue
		}
		f, ok := known[module+"."+name]
		if !ok {
			return fmt.Errorf("unknown import %s.%s: this prober does not have it", module, name)
		}
		if !slices.Equal(def.ParamTypes(), valueTypes(f.Params)) || !slices.Equal(def.ResultTypes(), valueTypes(f.Results)) {
			return fmt.Errorf("import %s.%s has another signature than version %d of the contract", module, name, abi.Version)
		}
	}
	if p.compiled.ExportedMemories()[abi.ExportMemory] == nil {
		return fmt.Errorf("the module exports no %q", abi.ExportMemory)
	}
	exports := p.compiled.ExportedFunctions()
	verdict := []api.ValueType{api.ValueTypeI32}
	for name, results := range map[string][]api.ValueType{
		abi.ExportProbe: verdict, abi.ExportValidateConfig: verdict, abi.ExportInitialize: nil,
	} {
		def := exports[name]
		if def == nil && name == abi.ExportProbe {
			return fmt.Errorf("the module exports no function %q", name)
		}
		if def != nil && (len(def.ParamTypes()) > 0 || !slices.Equal(def.ResultTypes(), results)) {
			return fmt.Errorf("the export %q has another signature than version %d of the contract", name, abi.Version)
		}
	}
	return nil
}

func (p *Handler) instantiateHost(ctx context.Context) error {
	for _, module := range p.module.imports {
		if module == wasiModule {
			if _, err := wasi_snapshot_preview1.Instantiate(ctx, p.runtime); err != nil {
				return err
			}
			continue
		}
		if err := instantiateHostModule(ctx, p.runtime, module); err != nil {
			return err
		}
	}
	return nil
}

// Manifest returns the plugin's manifest, which must not be changed.
func (p *Handler) Manifest() *plugin.Manifest { return p.manifest }

// Digest returns the digest of the module's bytes, "sha256:…".
func (p *Handler) Digest() string { return p.digest }

// Prepare implements [probe.Preparer]. It holds config against the manifest's
// schema, fills in the defaults, and asks the guest if it exports validate_config.
func (p *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	config, err := p.manifest.Config.Apply(config)
	if err != nil {
		return nil, err
	}
	b := &bound{plugin: p, config: config}
	if p.compiled.ExportedFunctions()[abi.ExportValidateConfig] == nil {
		return b, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return b, b.validate(ctx, target)
}

// Probe implements [probe.Handler] for a plugin that needs no config.
func (p *Handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	config, err := p.manifest.Config.Apply(nil)
	if err != nil {
		return probe.Outcome{}, err
	}
	return (&bound{plugin: p, config: config}).Probe(ctx, req)
}

// Close waits for the attempts in flight and frees what the plugin holds.
func (p *Handler) Close() error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	p.mu.Unlock()
	if already {
		return nil
	}
	p.host.remove(p)
	p.flying.Wait()
	for p.evictOne() {
	}
	return p.closeRuntime()
}

func (p *Handler) closeRuntime() error {
	if p.image != nil {
		p.host.budget.put(uint64(p.image.size))
		p.image.backing.close()
		p.image = nil
	}
	if p.runtime == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err := p.runtime.Close(ctx)
	if p.compiled != nil {
		err = errors.Join(err, p.compiled.Close(ctx))
	}
	return err
}

// take returns an instance that nobody else uses, a new one if need be, for a call
// that has its place.
func (p *Handler) take(c *call) (*instance, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	p.flying.Add(1)
	if n := len(p.idle); n > 0 {
		in := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return in, nil
	}
	if limit := p.manifest.Limits.Instances; limit > 0 && p.live >= limit {
		p.mu.Unlock()
		p.flying.Done()
		return nil, errNoInstance
	}
	p.live++
	p.mu.Unlock()
	in, err := p.newInstance(c.ctx)
	if err == nil {
		return in, nil
	}
	p.gone()
	p.flying.Done()
	if c.ctx.Err() == context.DeadlineExceeded {
		err = errNoInstance // the guest never got to see its target
	}
	return nil, err
}

// back ends a take. Only an instance whose call ended normally is used again.
func (p *Handler) back(in *instance, normal bool) {
	defer p.flying.Done()
	p.give(in, normal && p.reset && !in.worn() && in.restore(p.image))
}

func (p *Handler) give(in *instance, keep bool) {
	in.call = nil
	p.mu.Lock()
	if keep && !p.closed && p.reset {
		in.idleSince = time.Now()
		p.idle = append(p.idle, in)
		p.watchIdleLocked()
		p.mu.Unlock()
		return
	}
	p.live--
	p.mu.Unlock()
	in.close()
}

func (p *Handler) gone() {
	p.mu.Lock()
	p.live--
	p.mu.Unlock()
}

// evictOne closes the instance that has been idle for longest, and reports whether
// there was one.
func (p *Handler) evictOne() bool {
	p.mu.Lock()
	if len(p.idle) == 0 {
		p.mu.Unlock()
		return false
	}
	in := p.idle[0]
	p.idle = slices.Delete(p.idle, 0, 1)
	p.live--
	p.mu.Unlock()
	in.close()
	return true
}

// watchIdleLocked sees to it that what stays idle is closed.
func (p *Handler) watchIdleLocked() {
	if p.evicting == nil {
		p.evicting = time.AfterFunc(idleTime, p.closeStale)
	}
}

func (p *Handler) closeStale() {
	p.mu.Lock()
	var stale []*instance
	for len(p.idle) > 0 && time.Since(p.idle[0].idleSince) >= idleTime {
		stale = append(stale, p.idle[0])
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	p.live -= len(stale)
	p.evicting = nil
	if len(p.idle) > 0 {
		p.evicting = time.AfterFunc(idleTime-time.Since(p.idle[0].idleSince), p.closeStale)
	}
	p.mu.Unlock()
	for _, in := range stale {
		in.close()
	}
}

// bound is a plugin together with the config of one probe.
type bound struct {
	plugin *Handler
	config []byte // defaults filled in
}

var _ probe.Handler = (*bound)(nil)

// Probe implements [probe.Handler].
func (b *bound) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	start := time.Now()
	if err := ctx.Err(); err != nil {
		return b.ended(err, &req, start)
	}
	c := newCall(ctx, b, &req)
	if !c.acquire() {
		return probe.Outcome{}, b.named(errNoInstance)
	}
	in, err := b.plugin.take(c)
	if err != nil {
		c.release()
		return probe.Outcome{}, b.named(err)
	}
	code, err := in.run(c, in.probe)
	ended := c.ended()
	c.release()
	c.finish()
	b.plugin.back(in, err == nil && ended == nil && c.violation == nil)
	if ended != nil {
		return b.ended(ended, &req, start)
	}
	if err != nil {
		return probe.Outcome{}, b.named(err)
	}
	out, err := c.outcome(code)
	return out, b.named(err)
}

// ended is the answer of an attempt whose context has ended: a deadline is a
// Failure, and anything else is of no interest to anyone.
func (b *bound) ended(err error, req *probe.Request, start time.Time) (probe.Outcome, error) {
	if err != context.DeadlineExceeded {
		return probe.Outcome{}, b.named(err)
	}
	timeout := req.Spec.Timeout
	if timeout == 0 {
		timeout = time.Since(start).Round(time.Millisecond)
	}
	return probe.TimedOut(timeout), nil
}

// validate asks the guest whether it takes the config.
func (b *bound) validate(ctx context.Context, target probe.Target) error {
	c := newCall(ctx, b, &probe.Request{Target: target})
	c.offline = true
	if !c.acquire() {
		return errNoInstance
	}
	in, err := b.plugin.take(c)
	if err != nil {
		c.release()
		return err
	}
	code, err := in.run(c, in.validate)
	c.release()
	c.finish()
	b.plugin.back(in, err == nil && ctx.Err() == nil)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", abi.ExportValidateConfig, ctx.Err())
	case err != nil:
		return fmt.Errorf("%s: %w", abi.ExportValidateConfig, err)
	case code != 0:
		return errors.New(cmp.Or(c.message, "the plugin does not take this config"))
	}
	return nil
}

// named says which plugin an error comes from.
func (b *bound) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("plugin %q: %w", b.plugin.manifest.Name, err)
}

// guestTarget returns what a guest is told of its target.
func guestTarget(t probe.Target) abi.Target {
	out := abi.Target{Host: t.Host, Port: t.Port, Unix: t.Unix}
	if addr, err := netip.ParseAddr(t.Host); err == nil {
		out.IP = addr.String()
	}
	return out
}
