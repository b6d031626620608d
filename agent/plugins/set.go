package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/limit"
	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/credentials"
	"github.com/daeace23/prober/plugin/live"
	"github.com/daeace23/prober/plugin/oci"
	"github.com/daeace23/prober/probe"
)

// Config configures a [Set]. Runner, Metrics and Log are required.
type Config struct {
	PluginDirs []string
	ConfigFile string            // prober.yaml; "": defaults
	LockFile   string            // prober.plugins.lock, which must list every plugin; "": none
	DevPlugins map[string]string // see [admit.Config]
	StateDir   string            // stores plugins of registries; "": see [admit.CacheDir]
	Version    string            // of the agent
	Compat     probe.Compat
	UserAgent  string // see [builtin.Config]
	ShowOutput bool   // see [builtin.Config.ShowBody]
	Compiler   string // see [wasm.Config]
	// Redirects grants the shipped plugin httpcheck the destinations of redirects and proxies, unless
	// prober.yaml has grants for it.
	Redirects bool
	LookupEnv func(name string) (string, bool) // finds the credentials of registries; nil: there are none

	Runner    builtin.CommandRunner // runs the commands of exec probes
	Mark      string                // environment variable, NAME=VALUE, for the programs of plugins
	Listeners []net.Addr            // of the agent itself, which no plugin may reach
	IdleAfter time.Duration         // how long an unused plugin stays loaded
	AskEvery  time.Duration         // approximate interval of queries for tags

	// Credentials returns credentials in addition to those in prober.yaml, with absolute paths; nil: none. It
	// is called at each snapshot.
	Credentials func() []credentials.Entry

	// Offline reads all plugins, but queries no registries and runs no programs. Process plugins check
	// configs by their schemas.
	Offline bool

	// Configured is called with prober.yaml at each snapshot, never concurrently; it may be nil. Its error is
	// returned by [Set.Reload].
	Configured func(*config.Agent) error
	// Judge wraps the handler of each probe to judge its attempts; it may be nil.
	Judge func(probe.Handler) probe.Handler
	// Demanded is called with the result of loading a plugin for a probe.
	Demanded func(err error)
	Metrics  *metrics.Metrics
	Log      *slog.Logger
}

// Set has the built-in handlers and the plugins. It connects the plugins to files, registries, runtimes and
// metrics: package admit decides which may be loaded, and package live loads, replaces and unloads them.
type Set struct {
	cfg      Config
	registry handlers.Registry
	scanner  *admit.Scanner
	builtins []string
	limits   map[string]*limit.Limit // of the built-in handlers; read-only after New
	live     *live.Manager

	waits    context.Context         // ends every wait for a plugin when it ends
	endWaits context.CancelCauseFunc // of waits
	detached func() bool             // detaches waits from the context of New; false if that has ended

	holds    holds
	networks atomic.Pointer[networks] // of the pods; nil: all use the agent's network

	credentials credentials.Store // of prober.yaml

	scanning sync.Mutex // held during Scan

	mu           sync.Mutex
	host         *wasm.Host       // nil before the first WebAssembly plugin
	total        uint64           // memory of all plugins
	appliedTotal uint64           // total at the last Reload
	scanned      bool             // there was a snapshot
	refused      error            // error of Configured for the latest snapshot
	secrets      secrets.Policy   // of the latest snapshot
	lastSecrets  secrets.Policy   // at the last SecretPolicyChanged
	watched      []string         // files that the latest snapshot depends on, except files in plugin folders
	replaced     map[string]bool  // names of shipped plugins that are replaced by others
	incomplete   bool             // a registry has not responded, or with an error
	misses       int              // number of consecutive times that incomplete was found
	unused       *map[string]bool // see unusedPaths, of the latest snapshot; never nil, and read-only

	stamps unusedStamps // of Stamp
}

var (
	_ manager.Handlers   = (*Set)(nil)
	_ metrics.PluginHost = (*Set)(nil)
)

// startPatience is how long registries may delay the start of an agent. They are queried again later.
const startPatience = 10 * time.Second

// New creates the built-in handlers, queries registries, and takes the first snapshot of the plugins. An
// unavailable registry is no error, see [Set.Away]. stamp is the stamp of the files before they were read.
// The end of ctx ends New and, until [Set.Detach], every wait for a plugin. If New returns a Set with an
// error, the Set must be closed too.
func New(ctx context.Context, cfg Config) (s *Set, stamp string, err error) {
	s = &Set{cfg: cfg, unused: new(map[string]bool)}
	s.waits, s.endWaits = context.WithCancelCause(context.WithoutCancel(ctx))
	s.detached = context.AfterFunc(ctx, func() { s.endWaits(context.Cause(ctx)) })
	if err := builtin.Register(&s.registry, builtin.Config{Runner: cfg.Runner, Compat: cfg.Compat, UserAgent: cfg.UserAgent, ShowBody: cfg.ShowOutput}); err != nil {
		s.endWaits(err)
		return nil, "", err
	}
	s.builtins, s.limits = s.registry.Names(), make(map[string]*limit.Limit)
	for _, name := range s.builtins {
		s.limits[name] = limit.New(limit.Config{})
	}
	s.scanner = NewScanner(&cfg, s.builtins, newSources(&cfg))
	s.live = live.New(s.waits, live.Config{
		Registry: &s.registry, Load: s.load, Fingerprint: fingerprint, Scan: s.scanFor, Demanded: cfg.Demanded,
		IdleAfter: cfg.IdleAfter, Log: cfg.Log,
	})
	stamp = s.Stamp()
	if !cfg.Offline {
		brief, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("no response within %s", startPatience))
		s.Pull(brief, true, true, func() {})
		cancel()
	}
	_, err = s.Reload(ctx, false)
	s.SecretPolicyChanged() // no manifests have been read yet
	if away := s.Away(); away != nil {
		cfg.Log.Warn("plugins are not available yet; their probes fail with errors until then", "error", away.Error())
		err = admit.WithoutAway(err)
	}
	return s, stamp, err
}

// Detach lets the Set outlive the context of New. It returns false if that context has ended.
func (s *Set) Detach() bool { return s.detached() }

// End ends every wait for a plugin, now and later, with cause.
func (s *Set) End(cause error) { s.endWaits(cause) }

// NewScanner returns the scanner of the plugins of cfg, including shipped plugins.
func NewScanner(cfg *Config, builtins []string, sources *admit.Sources) *admit.Scanner {
	own, err := shipped.Plugins()
	if err != nil && cfg.Log != nil {
		cfg.Log.Error("plugins that are part of prober", "err", err) // cannot happen: its tests read the same bytes
	}
	for i := range own {
		if cfg.Redirects && own[i].Manifest.Name == "httpcheck" {
			own[i].Grants = anyWeb()
		}
	}
	return admit.NewScanner(admit.ScannerConfig{
		Config:     admit.Config{ConfigFile: cfg.ConfigFile, LockFile: cfg.LockFile, Dev: cfg.DevPlugins, Shipped: own},
		PluginDirs: cfg.PluginDirs, Builtins: builtins, Sources: sources,
	})
}

// anyWeb returns grants for all hosts except loopback, link-local and metadata addresses.
func anyWeb() []plugin.Grant {
	grants, err := plugin.ParseGrants([]string{"http://*:*", "https://*:*"})
	if err != nil {
		panic(err) // the grants are constants
	}
	return grants
}

// newSources returns the registries of cfg.
func newSources(cfg *Config) *admit.Sources {
	c := admit.SourcesConfig{Version: cfg.Version}
	if cfg.LookupEnv != nil {
		c.DockerConfig = oci.DockerConfig(cfg.LookupEnv)
	}
	c.CacheDir, _ = admit.CacheDir(cfg.StateDir) // the error is reported when a cache is needed
	return admit.NewSources(c)
}

var errEnded = errors.New("the agent has ended")

// Close closes the plugins and the built-in handlers.
func (s *Set) Close() error {
	s.detached()
	s.endWaits(errEnded)
	s.live.Close()
	err := s.registry.Close()
	s.mu.Lock()
	host := s.host
	s.mu.Unlock()
	if host != nil {
		err = errors.Join(err, host.Close())
	}
	return err
}

// Reload takes a snapshot and applies it. If retry is true, it reads all plugins in use, also plugins whose
// files look unchanged. It retries versions that could not be loaded if retry is true, or if totalMemory has
// changed.
func (s *Set) Reload(ctx context.Context, retry bool) (changed bool, err error) {
	if retry {
		s.scanner.Forget()
	}
	v, err := s.Scan()
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	retry = retry || s.total != s.appliedTotal
	s.appliedTotal = s.total
	refused := s.refused
	s.mu.Unlock()
	changed, err = s.live.Apply(ctx, v, retry)
	return changed, errors.Join(refused, err)
}

// Scanned reports whether there was a snapshot. Without one, plugins are unknown.
func (s *Set) Scanned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scanned
}

// Scan takes a snapshot of the plugins. It reads the plugins in use, unless their files are unchanged. After
// an error the last snapshot stays in use.
func (s *Set) Scan() (*admit.Snapshot, error) { return s.scanFor(s.live.Wants) }

// scanFor is [Set.Scan] for the plugins whose names are wanted.
func (s *Set) scanFor(wanted func(name string) bool) (*admit.Snapshot, error) {
	s.scanning.Lock()
	defer s.scanning.Unlock()
	if s.cfg.Offline {
		wanted = func(string) bool { return true }
	}
	v, err := s.scanner.ScanFor(wanted)
	if err != nil {
		return nil, err
	}
	for name, l := range s.limits {
		l.SetMaxInFlight(v.Config.MaxInFlight(name))
	}
	named := v.Config.Credentials
	if s.cfg.Credentials != nil {
		named = slices.Concat(named, s.cfg.Credentials())
	}
	s.credentials.Set(s.cfg.ConfigFile, named)
	var refused error
	if s.cfg.Configured != nil {
		refused = s.cfg.Configured(v.Config)
	}
	s.live.Note(v)
	s.cfg.Metrics.PluginSources(v.Remote())
	unused := unusedPaths(s.cfg.PluginDirs, v)
	files, allowed := append(slices.Clone(v.Files), commands(v)...), secrets.PolicyOf(s.cfg.ConfigFile, v.Config)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched, s.unused, s.refused, s.scanned = files, &unused, refused, true
	s.noteReplacedLocked(v)
	s.secrets = allowed
	if total := v.Config.TotalMemory; s.total != total {
		s.total = total
		if s.host != nil {
			s.host.SetTotalMemory(total)
		}
	}
	return v, nil
}

// noteReplacedLocked logs once for each shipped plugin that another plugin of the same name replaces it.
func (s *Set) noteReplacedLocked(v *admit.Snapshot) {
	for _, name := range shipped.Names() {
		e := v.Plugin(name)
		if e.State == admit.Absent || e.Plugin.Path == shipped.Path(name) || s.replaced[name] {
			continue
		}
		if s.replaced == nil {
			s.replaced = make(map[string]bool)
		}
		s.replaced[name] = true
		s.cfg.Log.Info("plugin replaces the shipped plugin of the same name", "handler", name, "path", e.Plugin.Path)
	}
}

// commands returns the files of the commands that plugins run.
func commands(v *admit.Snapshot) (files []string) {
	for _, e := range v.Plugins() {
		if !e.Loadable() || e.Plugin.Manifest.Runtime != plugin.Nagios {
			continue
		}
		if path, err := process.CommandPath(e.Plugin.Found); err == nil {
			files = append(files, path)
		}
	}
	return files
}

// Handlers returns statistics of the built-in handlers for [metrics.RegisterHandlers].
func (s *Set) Handlers() map[string]metrics.HandlerStats {
	all := make(map[string]metrics.HandlerStats, len(s.limits))
	for name, l := range s.limits {
		now := l.Stats()
		all[name] = metrics.HandlerStats{InFlight: now.InFlight, MaxInFlight: now.MaxInFlight, Deferred: now.Deferred}
	}
	return all
}

// Prepare implements [manager.Handlers]. It loads a plugin for its first probe. The attempts of the returned
// handler are counted.
func (s *Set) Prepare(name string, config []byte, target probe.Target) (probe.Handler, error) {
	return s.PrepareWithin(s.waits, name, config, target)
}

// PrepareWithin is Prepare with a context: it returns when ctx ends.
func (s *Set) PrepareWithin(ctx context.Context, name string, config []byte, target probe.Target) (probe.Handler, error) {
	if slices.Contains(s.builtins, name) {
		h, err := s.registry.Prepare(name, config, target)
		if err != nil {
			return nil, err
		}
		return s.judged(s.limits[name].Wrap(s.inNetwork(s.cfg.Metrics.CountInFlight(h)))), nil
	}
	h, err := s.live.Prepare(ctx, name, config, target)
	if _, unknown := errors.AsType[*handlers.UnknownError](err); unknown && len(s.cfg.PluginDirs) == 0 {
		err = fmt.Errorf("%w; plugins are found in --plugins folders", err)
	}
	if err != nil {
		return nil, err
	}
	return s.judged(s.inNetwork(s.cfg.Metrics.CountInFlight(s.cfg.Metrics.TimeCalls(name, h)))), nil
}

func (s *Set) judged(h probe.Handler) probe.Handler {
	if s.cfg.Judge == nil {
		return h
	}
	return s.cfg.Judge(h)
}

// SecretPolicy returns the policy of secrets in prober.yaml.
func (s *Set) SecretPolicy() secrets.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secrets
}

// SecretPolicyChanged reports whether the policy of secrets has changed since the last call. Manifests that
// the old policy refused may be allowed now, and running pods may be forbidden.
func (s *Set) SecretPolicyChanged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := !s.secrets.Equal(&s.lastSecrets)
	s.lastSecrets = s.secrets
	return changed
}
