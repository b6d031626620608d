package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
	"github.com/daeace23/prober/probe"
)

// handlerSet is the registry with everything in it, and what must be closed after it.
type handlerSet struct {
	handlers.Registry
	metrics *metrics.Metrics
	host    *wasm.Host               // nil: no plugins
	plugins map[string]*wasm.Handler // by name; read-only once all are loaded
}

var (
	_ manager.Handlers   = (*handlerSet)(nil)
	_ metrics.PluginHost = (*handlerSet)(nil)
)

// Plugins implements [metrics.PluginHost].
func (s *handlerSet) Plugins() map[string]metrics.PluginStats {
	all := make(map[string]metrics.PluginStats, len(s.plugins))
	for name, p := range s.plugins {
		stats := p.Stats()
		limits := make(map[string]uint64, len(stats.Limits))
		for limit, n := range stats.Limits {
			limits[string(limit)] = n
		}
		all[name] = metrics.PluginStats{Idle: stats.Idle, Busy: stats.Busy, Denied: stats.Denied, Limits: limits}
	}
	return all
}

// Memory implements [metrics.PluginHost].
func (s *handlerSet) Memory() uint64 {
	if s.host == nil {
		return 0
	}
	return s.host.Memory()
}

// Prepare implements [manager.Handlers]; the attempts of what it returns are counted.
func (s *handlerSet) Prepare(name string, config []byte, target probe.Target) (probe.Handler, error) {
	h, err := s.Registry.Prepare(name, config, target)
	if err != nil {
		return nil, err
	}
	if s.plugins[name] != nil {
		h = s.metrics.TimeCalls(name, h)
	}
	return s.metrics.CountInFlight(h), nil
}

// Close closes the plugins.
func (s *handlerSet) Close() error {
	err := s.Registry.Close()
	if s.host != nil {
		err = errors.Join(err, s.host.Close())
	}
	return err
}

// newHandlers loads the built-in handlers and the plugins.
func newHandlers(ctx context.Context, cfg Config, runner builtin.CommandRunner, m *metrics.Metrics, log *slog.Logger) (*handlerSet, error) {
	s := &handlerSet{metrics: m, plugins: make(map[string]*wasm.Handler)}
	if err := builtin.Register(&s.Registry, builtin.Config{Runner: runner, Compat: cfg.Compat}); err != nil {
		return nil, err
	}
	admission, err := NewAdmission(AdmissionConfig{ConfigFile: cfg.ConfigFile, LockFile: cfg.LockFile, Dev: cfg.DevPlugins})
	if err != nil {
		return s, err
	}
	admitted, err := admission.Find(cfg.PluginDirs, s.Names())
	if err != nil || len(admitted) == 0 {
		return s, err
	}
	if s.host, err = wasm.New(wasm.Config{Logger: log, Version: cfg.Version, TotalMemory: admission.Config().TotalMemory}); err != nil {
		return s, err
	}
	return s, s.load(ctx, admitted, log)
}

// load loads plugins.
func (s *handlerSet) load(ctx context.Context, admitted []Admitted, log *slog.Logger) error {
	found := make([]plugin.Found, len(admitted))
	for i, f := range admitted {
		found[i] = f.Found
		warn(log, f)
	}
	log.Info("loading plugins", "count", len(found)) // takes seconds where none was compiled before
	if err := wasm.RegisterAll(ctx, &s.Registry, s.host, found); err != nil {
		return err
	}
	for _, f := range admitted {
		attrs := []any{"handler", f.Manifest.Name, "version", f.Manifest.Version, "path", f.Path, "digest", f.Digest}
		if signer := f.Verdict.Signer(); signer != "" {
			attrs = append(attrs, "signer", signer)
		}
		log.Info("plugin loaded", attrs...)
		h, err := s.Lookup(f.Manifest.Name)
		if err != nil {
			return err
		}
		if q, ok := h.(*handlers.Quarantine); ok {
			h = q.Unwrap()
		}
		s.plugins[f.Manifest.Name], _ = h.(*wasm.Handler)
		s.metrics.PluginLoaded(f.Manifest.Name, f.Manifest.Version, f.Digest, "wasm")
		s.metrics.PluginTrusted(f.Manifest.Name, string(f.Verdict.State))
	}
	return nil
}

// warn says what nobody vouches for.
func warn(log *slog.Logger, f Admitted) {
	attrs := []any{"handler", f.Manifest.Name, "path", f.Path, "digest", f.Digest}
	switch f.Verdict.State {
	case underDevelopment:
		log.Warn("plugin is under development: no pin, no signature and no lock holds for it", attrs...)
	case trust.Unsigned, trust.UnknownKey:
		log.Warn("plugin is "+f.Verdict.String(), attrs...)
	}
}

// loadConfig reads prober.yaml; "" stands for defaults.
func loadConfig(file string) (*config.Agent, error) {
	if file == "" {
		return config.Default(), nil
	}
	return config.Load(file)
}

// place returns the plugin that p is about among found, to which it adds it when it
// has a source of its own.
func place(p *config.Plugin, configFile string, found *[]plugin.Found, taken []string) (*plugin.Found, error) {
	at := slices.IndexFunc(*found, func(f plugin.Found) bool { return f.Manifest.Name == p.Name })
	switch {
	case p.Source == "" && at < 0:
		return nil, fmt.Errorf("plugin %q is in none of the plugin folders", p.Name)
	case p.Source == "":
		return &(*found)[at], nil
	case at >= 0:
		return nil, fmt.Errorf("plugin %q of %s: the name is taken by %s", p.Name, p.Source, (*found)[at].Path)
	case slices.Contains(taken, p.Name):
		return nil, fmt.Errorf("plugin %q of %s: the name is taken by a built-in handler", p.Name, p.Source)
	case strings.Contains(p.Source, "://"):
		return nil, fmt.Errorf("source %s: only files are supported by this version of prober", p.Source)
	}
	f, err := ReadPlugin(beside(configFile, p.Source))
	if err != nil {
		return nil, err
	}
	if f.Manifest.Name != p.Name {
		return nil, fmt.Errorf("source %s: its manifest calls the plugin %q", p.Source, f.Manifest.Name)
	}
	*found = append(*found, f)
	return &(*found)[len(*found)-1], nil
}

// ReadPlugin reads the module at path, with its manifest inside.
func ReadPlugin(path string) (plugin.Found, error) {
	if info, err := os.Stat(path); err != nil {
		return plugin.Found{}, err
	} else if !info.Mode().IsRegular() || info.Size() > plugin.MaxModule {
		return plugin.Found{}, fmt.Errorf("%s: want a file of at most %d bytes", path, plugin.MaxModule)
	}
	module, err := os.ReadFile(path)
	if err != nil {
		return plugin.Found{}, err
	}
	manifest, err := plugin.ReadModule(path, module)
	if err != nil {
		return plugin.Found{}, err
	}
	return plugin.Found{Manifest: manifest, Path: path, Module: module, Digest: plugin.Digest(module)}, nil
}
