package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
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
	file, err := loadConfig(cfg.ConfigFile)
	if err != nil {
		return s, err
	}
	found, err := findPlugins(file, cfg.ConfigFile, cfg.PluginDirs, s.Names())
	if err != nil || len(found) == 0 {
		return s, err
	}
	if s.host, err = wasm.New(wasm.Config{Logger: log, Version: cfg.Version, TotalMemory: file.TotalMemory}); err != nil {
		return s, err
	}
	log.Info("loading plugins", "count", len(found)) // takes seconds where none was compiled before
	if err := wasm.RegisterAll(ctx, &s.Registry, s.host, found); err != nil {
		return s, err
	}
	for _, f := range found {
		log.Info("plugin loaded", "handler", f.Manifest.Name, "version", f.Manifest.Version, "path", f.Path, "digest", f.Digest)
		h, err := s.Lookup(f.Manifest.Name)
		if err != nil {
			return s, err
		}
		if q, ok := h.(*handlers.Quarantine); ok {
			h = q.Unwrap()
		}
		s.plugins[f.Manifest.Name], _ = h.(*wasm.Handler)
		m.PluginLoaded(f.Manifest.Name, f.Manifest.Version, f.Digest, "wasm")
	}
	return s, nil
}

// loadConfig reads prober.yaml; "" stands for defaults.
func loadConfig(file string) (*config.Agent, error) {
	if file == "" {
		return config.Default(), nil
	}
	return config.Load(file)
}

// FindPlugins returns the plugins of the folders as the file at configFile ("": none)
// wants them: pinned, limited, or from a source of its own. taken are the names of
// built-in handlers. It runs no plugin.
func FindPlugins(configFile string, dirs, taken []string) ([]plugin.Found, error) {
	cfg, err := loadConfig(configFile)
	if err != nil {
		return nil, err
	}
	return findPlugins(cfg, configFile, dirs, taken)
}

func findPlugins(cfg *config.Agent, configFile string, dirs, taken []string) ([]plugin.Found, error) {
	if cfg.Trust.Require {
		// Closed rather than open: no signature can be verified yet.
		return nil, &plugin.FieldError{
			File: configFile, Line: 1, Field: "trust.require", Err: errors.New("signatures are not supported by this version of prober"),
		}
	}
	found, findErr := plugin.Find(dirs, taken...)
	errs := []error{findErr}
	for i, p := range cfg.Plugins {
		f, err := place(&p, configFile, &found, taken)
		if err == nil {
			err = constrain(f, &p)
		}
		if err != nil {
			errs = append(errs, &plugin.FieldError{File: configFile, Line: p.Line, Field: fmt.Sprintf("plugins[%d]", i), Err: err})
		}
	}
	return found, errors.Join(errs...)
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
	path := p.Source
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(configFile), path)
	}
	f, err := ReadPlugin(path)
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

// Constrain is [FindPlugins] for one plugin that is at hand: it holds f to what cfg, the
// file at configFile, says of a plugin of its name.
func Constrain(f *plugin.Found, configFile string, cfg *config.Agent) error {
	for i, p := range cfg.Plugins {
		if p.Name != f.Manifest.Name {
			continue
		}
		if err := constrain(f, &p); err != nil {
			return &plugin.FieldError{File: configFile, Line: p.Line, Field: fmt.Sprintf("plugins[%d]", i), Err: err}
		}
	}
	return nil
}

// constrain holds f to what the operator says of it.
func constrain(f *plugin.Found, p *config.Plugin) error {
	if p.Digest != "" && p.Digest != f.Digest {
		return fmt.Errorf("digest of %s is %s, want %s", f.Path, f.Digest, p.Digest)
	}
	f.Grants, f.Limits = p.Grants, p.Limits
	if p.ErrorPolicy != "" {
		manifest := *f.Manifest
		manifest.ErrorPolicy = p.ErrorPolicy
		f.Manifest = &manifest
	}
	return nil
}
