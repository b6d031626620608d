package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/probe"
)

// load makes a handler of a plugin, off the path of probes.
func (s *handlerSet) load(ctx context.Context, f admit.Plugin) (*running, error) {
	g := &running{runtime: string(cmp.Or(f.Manifest.Runtime, plugin.Wasm)), f: f}
	g.f.Module, g.f.Signatures = nil, nil
	var bare probe.Handler
	switch f.Manifest.Runtime {
	case plugin.Process:
		h, err := process.Load(ctx, process.Config{Logger: s.log, Version: s.cfg.Version, Env: []string{s.cfg.mark}}, f.Found)
		if err != nil {
			return nil, err
		}
		bare, g.stats = h, func() metrics.PluginStats { return processStats(h.Stats()) }
	case plugin.Nagios:
		h, err := process.LoadCheck(process.Config{Logger: s.log, Env: []string{s.cfg.mark}}, f.Found)
		if err != nil {
			return nil, err
		}
		bare, g.stats = h, func() metrics.PluginStats { return processStats(h.Stats()) }
	default:
		host, err := s.wasmHost()
		if err != nil {
			return nil, err
		}
		h, err := host.Load(ctx, f.Found)
		if err != nil {
			return nil, err
		}
		bare, g.stats = h, func() metrics.PluginStats { return statsOf(h) }
	}
	g.handler = quarantine.New(endable{bare, s}, quarantine.Config{})
	return g, nil
}

// runsPrograms reports whether the plugin called name runs programs on the host.
func (s *handlerSet) runsPrograms(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.plugins[name]
	return r != nil && (r.runtime == string(plugin.Process) || r.runtime == string(plugin.Nagios))
}

// wasmHost returns the host of wasm plugins, which is made with the first of them.
func (s *handlerSet) wasmHost() (*wasm.Host, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host != nil {
		return s.host, nil
	}
	host, err := wasm.New(wasm.Config{
		Logger: s.log, Version: s.cfg.Version, TotalMemory: s.total, Compat: s.cfg.Compat, Listeners: s.cfg.listeners,
		Compiler: s.cfg.Compiler,
	})
	if err == nil {
		s.host = host
	}
	return host, err
}

// maxLoads bounds how many plugins are loaded or replaced at once by a reload.
const maxLoads = 4

// reload looks what prober.yaml and the plugin folders have, and brings the plugins to what
// they say. A plugin with unchanged bytes and settings is left alone. Where a new one
// cannot be used, the old one stays; it is tried again when it has changed, or with again.
// The error tells of all that is wrong; changed says that there is another plugin now.
func (s *handlerSet) reload(ctx context.Context, again bool) (changed bool, err error) {
	v, err := s.scan()
	if err != nil {
		return false, err
	}
	again = s.wasResized() || again
	names := v.Names()
	for _, r := range s.records() {
		if !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	did, errs := make([]bool, len(names)), make([]error, len(names))
	var work sync.WaitGroup
	places := make(chan struct{}, maxLoads)
	for i, name := range names {
		work.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			did[i], errs[i] = s.bringTo(ctx, name, v, again)
		})
	}
	work.Wait()
	if ctx.Err() != nil {
		return slices.Contains(did, true), context.Cause(ctx)
	}
	return slices.Contains(did, true), errors.Join(append([]error{v.Err()}, errs...)...)
}

// bringTo brings the plugin called name to what v found.
func (s *handlerSet) bringTo(ctx context.Context, name string, v *admit.Snapshot, again bool) (changed bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	here := v.Plugin(name).Loadable()
	r := s.record(name)
	if r == nil && here {
		r = s.newRecord(name)
	}
	if r == nil { // a shadow and nothing else
		return false, v.WithoutPlugin(name)
	}
	if err := r.lock(ctx); err != nil {
		return false, err
	}
	defer r.unlock()
	if s.record(name) != r {
		return false, nil // it has gone this moment, and is looked at again
	}
	return s.reconcile(ctx, r, v, again)
}

// reconcile brings r, which the caller has locked, and its shadow to what v found.
func (s *handlerSet) reconcile(ctx context.Context, r *pluginRecord, v *admit.Snapshot, again bool) (changed bool, err error) {
	if v.Number < r.seen { // who came before us knew more
		return false, s.failed(r)
	}
	r.seen = v.Number
	if e := v.Plugin(r.name); e.Loadable() {
		changed, err = s.update(ctx, r, e.Plugin, v, again)
	} else {
		err = s.missing(r, v)
	}
	switch {
	case ctx.Err() != nil:
		return changed, context.Cause(ctx)
	case s.record(r.name) != r: // it was dropped
		return changed, errors.Join(err, v.WithoutPlugin(r.name))
	}
	return changed, errors.Join(err, s.updateShadow(ctx, r, v, again))
}

// markOf tells apart what would be other generations of a plugin: by its bytes, its
// manifest and what the operator says of it.
func markOf(f *admit.Plugin) string {
	m := *f.Manifest
	schema := m.Config.JSON()
	m.Config = nil
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%+v\n%s\n%s\n%+v\n%q\n%q\n%s", f.Digest, f.Beside, m, schema, f.Grants, f.Limits, f.Folders, f.Env, markOfCommand(f)))
	return string(sum[:])
}

// markOfCommand tells apart what would be other commands of a check; "" for what is none.
func markOfCommand(f *admit.Plugin) string {
	if f.Manifest.Runtime != plugin.Nagios {
		return ""
	}
	path, digest, inPlace, err := process.CommandOf(f.Found)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintln(&b, path, digest)
	if inPlace {
		stampFile(&b, path)
	}
	return b.String()
}

// update brings a plugin to what was found of it.
func (s *handlerSet) update(ctx context.Context, r *pluginRecord, f admit.Plugin, v *admit.Snapshot, again bool) (changed bool, err error) {
	mark := markOf(&f)
	switch wrong := v.About(r.name, ""); {
	case r.mark == "" && !r.withdrawn && !s.isWanted(r.name):
		if err := s.owned(r, f.Path); err != nil {
			s.settle(r, "", err) // to be tried again: it may be elsewhere by then
			return false, err
		}
		return s.offer(r, f)
	case r.mark != "" && wrong != nil: // there are two of the name
		s.settle(r, r.tried, wrong)
		return false, nil // told already
	case r.mark == mark, r.mark != "" && r.base == mark: // else a shadow was promoted meanwhile
		if r.mark == mark {
			s.vouched(r, f)
		}
		s.found(r, f.Path, mark)
		s.settle(r, mark, nil)
		return false, nil
	case r.tried == mark && r.err != nil && !again:
		return false, r.err
	}
	if err = s.owned(r, f.Path); err != nil {
		s.settle(r, "", err)
		return false, err
	}
	err = s.replace(ctx, r, f, mark)
	if ctx.Err() == nil {
		s.settle(r, mark, err)
	}
	return err == nil, err
}

// vouched notes who vouches for the bytes that run: a signature may come later than they.
func (s *handlerSet) vouched(r *pluginRecord, f admit.Plugin) {
	s.mu.Lock()
	same := r.inUse.Verdict.String() == f.Verdict.String()
	r.inUse.Verdict = f.Verdict
	if g, _, _ := r.nowLocked(); g != nil {
		g.f.Verdict = f.Verdict
	}
	s.mu.Unlock()
	if same {
		return
	}
	s.log.Info("plugin is "+f.Verdict.String(), "handler", r.name, "path", f.Path, "digest", f.Digest)
}

// offer notes a plugin that waits for a probe, and reports whether it is new.
func (s *handlerSet) offer(r *pluginRecord, f admit.Plugin) (isNew bool, err error) {
	f.Module, f.Signatures = nil, nil
	isNew = !r.here
	s.mu.Lock()
	r.inUse, r.runtime, r.err = f, string(cmp.Or(f.Manifest.Runtime, plugin.Wasm)), nil
	s.mu.Unlock()
	return isNew, s.register(r)
}

// owned is an error where the file at path is that of another plugin, which runs: then
// its bytes were exchanged for those of a plugin of another name.
func (s *handlerSet) owned(r *pluginRecord, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.plugins {
		if other != r && other.mark != "" && other.place == path {
			return fmt.Errorf("plugin %q: %s is the file of the plugin %q, which goes on; another plugin needs another file", r.name, path, other.name)
		}
	}
	return nil
}

// replace makes f the plugin of r.
func (s *handlerSet) replace(ctx context.Context, r *pluginRecord, f admit.Plugin, mark string) error {
	start := time.Now()
	next, err := s.load(ctx, f)
	if err != nil {
		return fmt.Errorf("%w (%s)", err, f.Path)
	}
	s.begins(r, next)
	if err := r.swap.Replace(ctx, next.handler); err != nil {
		s.ended(r, next.handler, next.handler.(io.Closer).Close())
		return fmt.Errorf("plugin %q: %w (%s)", r.name, err, f.Path)
	}
	s.found(r, f.Path, mark)
	return s.installed(r, f, mark, next.runtime, time.Since(start))
}

// found notes what is where the plugin is, and is no reason to replace it any more.
func (s *handlerSet) found(r *pluginRecord, path, mark string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.mark == mark {
		r.inUse.Path = path // it may have moved
		if g, _, _ := r.nowLocked(); g != nil {
			g.f.Path = path
		}
	}
	r.base, r.place = mark, path
}

// installed notes that f runs now.
func (s *handlerSet) installed(r *pluginRecord, f admit.Plugin, mark, runtime string, took time.Duration) error {
	f.Module, f.Signatures = nil, nil
	s.mu.Lock()
	r.inUse, r.runtime, r.mark, r.withdrawn = f, runtime, mark, false
	delete(s.muted, r.name)
	s.mu.Unlock()
	warn(s.log, f)
	attrs := []any{"handler", r.name, "version", f.Manifest.Version, "path", f.Path, "digest", f.Digest}
	if signer := f.Verdict.Signer(); signer != "" {
		attrs = append(attrs, "signer", signer)
	}
	s.log.Info("plugin loaded", append(attrs, "generation", r.swap.Generation(), "probes", r.swap.Live(), "took", took.Round(time.Microsecond))...)
	return s.register(r)
}

// missing brings a plugin that was not found to what that means.
func (s *handlerSet) missing(r *pluginRecord, v *admit.Snapshot) error {
	switch wrong := v.About(r.name, r.place); {
	case v.Plugin(r.name).State == admit.Pending: // nobody knows yet
	case r.mark == "" && !r.withdrawn: // it never ran
		s.forget(r)
	case wrong != nil:
		s.settle(r, r.tried, wrong) // told already
	case r.mark != "" && !v.IsGone(r.place):
		err := fmt.Errorf("plugin %q: %s holds no plugin of that name any more; the old one goes on", r.name, r.place)
		s.settle(r, r.tried, err)
		return err
	case r.swap.Live() == 0:
		s.forget(r)
	case r.mark != "":
		s.withdraw(r)
	}
	return nil
}

var (
	errWithdrawn = errors.New("it was withdrawn: there is no such plugin any more")
	errUnloaded  = errors.New("it was not used, and is not loaded")
)

// withdraw lets the probes of a plugin end in errors, and so keep their decided results,
// until there is another plugin of the name.
func (s *handlerSet) withdraw(r *pluginRecord) {
	s.mu.Lock() // it is told of before a probe can show it
	r.mark, r.base, r.tried, r.err, r.withdrawn, r.at = "", "", "", nil, true, time.Now()
	r.shadow = nil
	path := r.inUse.Path
	s.mu.Unlock()
	r.swap.Withdraw(errWithdrawn)
	s.log.Warn("plugin withdrawn; its probes end in errors until there is another", "handler", r.name,
		"path", path, "probes", r.swap.Live())
}

// forget drops a plugin that nobody uses. Where a probe came this moment it is withdrawn.
func (s *handlerSet) forget(r *pluginRecord) {
	s.mu.Lock()
	if !r.swap.Unload(errUnloaded) {
		s.mu.Unlock()
		s.withdraw(r)
		return
	}
	path, known := r.inUse.Path, s.Remove(r.name) != nil
	delete(s.plugins, r.name)
	delete(s.wanted, r.name) // who wants it still asks again
	s.mu.Unlock()
	if known {
		s.log.Info("plugin removed", "handler", r.name, "path", path)
	}
	s.closing.Go(func() { _ = r.swap.Close() }) // its generations tell of their errors
}
