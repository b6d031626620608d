package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

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

// handlerSet is the registry with everything in it: the built-in handlers, and the
// plugins, which [handlerSet.reload] replaces.
type handlerSet struct {
	handlers.Registry
	metrics  *metrics.Metrics // read-only after newHandlers, as is what follows up to loading
	log      *slog.Logger
	cfg      Config
	sources  *Sources
	builtins []string

	ending   context.Context         // ends what plugins are waited for that a probe asks for; read-only after newHandlers, as is what follows
	end      context.CancelCauseFunc // of ending
	started  func() bool             // lets ending outlast the context of New, unless that has ended
	demanded func(err error)         // hears how it went with a plugin that a probe asks for; read-only after New

	preparing sync.WaitGroup // of handlers, by plugins
	closing   sync.WaitGroup // of plugins that were removed
	surveying sync.Mutex     // held by who looks what there is

	mu      sync.Mutex
	host    *wasm.Host                  // nil: there was no plugin yet
	total   uint64                      // memory of all plugins
	resized bool                        // total is another one than when what was refused was last tried
	plugins map[string]*pluginRecord    // by name
	wanted  map[string]bool             // the plugins that a probe has asked for
	named   map[string]bool             // the handlers of the pods that run
	byPod   map[*v1.Pod]map[string]bool // the same by pod; owned by uses
	mayBe   map[string]bool             // those of the manifests that were read since, or are being read
	seen    map[string]bool             // those of the manifests that were read last
	muted   map[string]time.Time        // plugins that do not answer, and until when they are not asked again
	surveys int                         // how many there were
	secrets secretPolicy                // by the last survey

	otherSecrets bool // secrets is another one than when allowsOthers was last asked

	watched []string         // files beside those in plugin folders, by the last survey, as is what follows
	waiting map[string]bool  // plugins whose registry has not answered yet
	refused map[string]error // why plugins may not be loaded
	stale   map[string]error // why what their registries have was not taken

	sourced map[string]bool // the plugins that are in registries

	refusedShadows, staleShadows map[string]error // the same of those that are to run beside

	wanting bool // a registry has not said what it should
}

var (
	_ manager.Handlers   = (*handlerSet)(nil)
	_ metrics.PluginHost = (*handlerSet)(nil)
)

// counted is a handler whose attempts are counted.
type counted struct {
	probe.Handler
	bare probe.Handler
}

var (
	_ probe.Inheritor     = counted{}
	_ probe.Releaser      = counted{}
	_ probe.SecretKeeper  = counted{}
	_ probe.SecretChecker = counted{}
)

// Inherit implements [probe.Inheritor] for the handler inside.
func (c counted) Inherit(from probe.Handler) {
	if old, ok := from.(counted); ok {
		from = old.bare
	}
	probe.Inherit(c.bare, from)
}

// Release implements [probe.Releaser] for the handler inside.
func (c counted) Release() { probe.Release(c.bare) }

// CheckSecrets implements [probe.SecretChecker] for the handler inside.
func (c counted) CheckSecrets(fields []string) error { return probe.CheckSecrets(c.bare, fields) }

// KeepSecret implements [probe.SecretKeeper] for the handler inside.
func (c counted) KeepSecret(redact func(string) string) {
	if k, ok := c.bare.(probe.SecretKeeper); ok {
		k.KeepSecret(redact)
	}
}

var errEnded = errors.New("the agent has ended")

// Close closes the plugins, all at the same time: each of them may take as long as the
// slowest.
func (s *handlerSet) Close() error {
	s.started()
	s.end(errEnded)
	for _, r := range s.records() {
		s.closing.Go(func() { _ = r.swap.Close() }) // its generations tell of their errors
	}
	s.preparing.Wait() // which may find that there is one more to close
	s.closing.Wait()
	err := s.Registry.Close()
	s.mu.Lock()
	host := s.host
	s.mu.Unlock()
	if host != nil {
		err = errors.Join(err, host.Close())
	}
	return err
}

// newHandlers makes the built-in handlers, has registries asked, and looks which plugins
// there are. stamp is that of the files from before they were read.
func newHandlers(ctx context.Context, cfg Config, runner builtin.CommandRunner, m *metrics.Metrics, log *slog.Logger) (s *handlerSet, stamp string, err error) {
	s = &handlerSet{
		metrics: m, log: log, cfg: cfg, sources: newSources(cfg), demanded: func(error) {},
		plugins: make(map[string]*pluginRecord), wanted: make(map[string]bool), mayBe: make(map[string]bool), muted: make(map[string]time.Time),
		stale: make(map[string]error), staleShadows: make(map[string]error), sourced: make(map[string]bool),
	}
	s.ending, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	s.started = context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	if err := builtin.Register(&s.Registry, builtin.Config{Runner: runner, Compat: cfg.Compat, ShowBody: cfg.ShowOutput}); err != nil {
		s.end(err)
		return nil, "", err
	}
	s.builtins = s.Names()
	stamp = s.stamp()
	s.pull(ctx, true, true, func() {})
	_, err = s.reload(ctx, false)
	s.allowsOthers() // no manifests have been read yet
	return s, stamp, err
}

// warn says what nobody vouches for, and what may not be meant.
func warn(log *slog.Logger, f Admitted) {
	attrs := []any{"handler", f.Manifest.Name, "path", f.Path, "digest", f.Digest}
	if f.Inside != "" {
		log.Warn("plugin has another manifest inside than the plugin.yaml beside it, which takes precedence", attrs...)
	}
	switch f.Verdict.State {
	case underDevelopment:
		log.Warn("plugin is under development: no pin, no signature and no lock holds for it", attrs...)
	case trust.Unsigned:
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

var errNowhere = errors.New("is in none of the plugin folders")

// place returns the plugin that p is about among found, to which it adds it when it
// has a source of its own.
func place(p *config.Plugin, fetch func(*config.Plugin) (plugin.Found, error), found *[]plugin.Found, taken []string) (*plugin.Found, error) {
	at := slices.IndexFunc(*found, func(f plugin.Found) bool { return f.Manifest.Name == p.Name })
	switch {
	case p.Source == "" && at < 0:
		return nil, fmt.Errorf("plugin %q %w", p.Name, errNowhere)
	case p.Source == "":
		return &(*found)[at], nil
	case at >= 0:
		return nil, fmt.Errorf("plugin %q of %s: the name is taken by %s", p.Name, p.Source, (*found)[at].Path)
	case slices.Contains(taken, p.Name):
		return nil, fmt.Errorf("plugin %q of %s: the name is taken by a built-in handler", p.Name, p.Source)
	}
	f, err := fetch(p)
	if err != nil {
		return nil, err
	}
	*found = append(*found, f)
	return &(*found)[len(*found)-1], nil
}

// fetch reads the plugin in the file that the source of p leads to.
func fetch(p *config.Plugin, configFile string) (plugin.Found, error) {
	f, err := plugin.Read(beside(configFile, p.Source))
	if err == nil && f.Manifest.Name != p.Name {
		err = fmt.Errorf("source %s: its manifest calls the plugin %q", p.Source, f.Manifest.Name)
	}
	return f, err
}
