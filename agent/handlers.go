package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/oci"
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
	sources  *admit.Sources
	scanner  *admit.Scanner
	builtins []string

	ending   context.Context         // ends what plugins are waited for that a probe asks for; read-only after newHandlers, as is what follows
	end      context.CancelCauseFunc // of ending
	started  func() bool             // lets ending outlast the context of New, unless that has ended
	demanded func(err error)         // hears how it went with a plugin that a probe asks for; read-only after New

	preparing sync.WaitGroup // of handlers, by plugins
	closing   sync.WaitGroup // of plugins that were removed
	scanning  sync.Mutex     // held while a snapshot is taken and noted

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
	latest  *admit.Snapshot             // without code; nil: there was none yet
	secrets secrets.Policy              // by latest

	otherSecrets bool // secrets is another one than when allowsOthers was last asked

	watched    []string // files beside those in plugin folders, by latest
	incomplete bool     // a registry has given no good answer
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
		metrics: m, log: log, cfg: cfg, sources: newSources(cfg), latest: new(admit.Snapshot), demanded: func(error) {},
		plugins: make(map[string]*pluginRecord), wanted: make(map[string]bool), mayBe: make(map[string]bool), muted: make(map[string]time.Time),
	}
	s.ending, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	s.started = context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	if err := builtin.Register(&s.Registry, builtin.Config{Runner: runner, Compat: cfg.Compat, ShowBody: cfg.ShowOutput}); err != nil {
		s.end(err)
		return nil, "", err
	}
	s.builtins = s.Names()
	s.scanner = newScanner(&cfg, s.builtins, s.sources)
	stamp = s.stamp()
	s.pull(ctx, true, true, func() {})
	_, err = s.reload(ctx, false)
	s.allowsOthers() // no manifests have been read yet
	return s, stamp, err
}

// warn says what nobody vouches for, and what may not be meant.
func warn(log *slog.Logger, f admit.Plugin) {
	attrs := []any{"handler", f.Manifest.Name, "path", f.Path, "digest", f.Digest}
	if f.Inside != "" {
		log.Warn("plugin has another manifest inside than the plugin.yaml beside it, which takes precedence", attrs...)
	}
	switch f.Verdict.State {
	case admit.Dev:
		log.Warn("plugin is under development: no pin, no signature and no lock holds for it", attrs...)
	case trust.Unsigned:
		log.Warn("plugin is "+f.Verdict.String(), attrs...)
	}
}

// newScanner returns the scanner of the plugins of an agent.
func newScanner(cfg *Config, builtins []string, sources *admit.Sources) *admit.Scanner {
	return admit.NewScanner(admit.ScannerConfig{
		Config:     admit.Config{ConfigFile: cfg.ConfigFile, LockFile: cfg.LockFile, Dev: cfg.DevPlugins},
		PluginDirs: cfg.PluginDirs, Builtins: builtins, Sources: sources,
	})
}

// newSources returns the sources of an agent.
func newSources(cfg Config) *admit.Sources {
	c := admit.SourcesConfig{Version: cfg.Version}
	if cfg.LookupEnv != nil {
		c.DockerConfig = oci.DockerConfig(cfg.LookupEnv)
	}
	c.CacheDir, _ = admit.CacheDir(cfg.StateDir) // the error is reported when a cache is needed
	return admit.NewSources(c)
}

// scan takes a snapshot, and notes what it says of all plugins together. The error means
// that nothing can be said of any plugin.
func (s *handlerSet) scan() (*admit.Snapshot, error) {
	s.scanning.Lock()
	defer s.scanning.Unlock()
	v, err := s.scanner.Scan()
	if err != nil {
		return nil, err
	}
	s.take(v, append(slices.Clone(v.Files), commands(v)...))
	return v, nil
}

// commands returns the files of the commands that plugins run.
func commands(v *admit.Snapshot) (files []string) {
	for _, e := range v.Plugins() {
		if !e.Loadable() || e.Plugin.Manifest.Runtime != plugin.Nagios {
			continue
		}
		if path, _, _, err := process.CommandOf(e.Plugin.Found); err == nil {
			files = append(files, path)
		}
	}
	return files
}

// take notes what v says of all plugins together.
func (s *handlerSet) take(v *admit.Snapshot, files []string) {
	allowed := secrets.PolicyOf(s.cfg.ConfigFile, v.Config)
	s.metrics.PluginSources(v.Remote())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest, s.watched = v.WithoutCode(), files
	s.otherSecrets = s.otherSecrets || !s.secrets.Equal(&allowed)
	s.secrets = allowed
	if total := v.Config.TotalMemory; s.total != total {
		if s.total, s.resized = total, true; s.host != nil {
			s.host.SetTotalMemory(total)
		}
	}
}

// wasResized reports whether totalMemory has changed since it was last asked: what found no
// room may find some.
func (s *handlerSet) wasResized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	resized := s.resized
	s.resized = false
	return resized
}

// secretPolicy returns what prober.yaml allows now.
func (s *handlerSet) secretPolicy() secrets.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secrets
}

// allowsOthers reports whether there is another policy of secrets since it was last asked:
// manifests may have been refused for the one before, or refer to what it allows no more.
func (s *handlerSet) allowsOthers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := s.otherSecrets
	s.otherSecrets = false
	return others
}
