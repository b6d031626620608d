package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/blackbox"
	"github.com/daeace23/prober/agent/depend"
	"github.com/daeace23/prober/agent/notify"
	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/probe"
)

// loadAndCheck reads the files that the agent uses, and checks all of them: the web config, the modules of
// /probe, prober.yaml with its receivers, plugins, and manifests and targets with the configs of their
// probes. Its error joins all problems. Doubtful settings are logged as warnings. [New] and [Validate] call
// it, and reloadAll makes the same checks of each part.
func (a *Agent) loadAndCheck(ctx context.Context, cfg plugins.Config) error {
	web := a.guard.Web.Check(a.guard.Addr)
	if errors.Is(web, access.ErrExposed) { // return at once, before plugins are pulled and compiled
		return web
	}
	scrapes, modules := blackbox.Open(a.cfg.BlackboxConfig, a.log)
	a.scrapes = scrapes
	cfg.Credentials, cfg.Configured = a.scrapes.Credentials, a.configured
	var err, pods error
	if a.handlers, a.pluginStamp, err = plugins.New(ctx, cfg); ctx.Err() != nil || a.handlers == nil || !a.handlers.Scanned() {
		return joinChecks(web, modules, err) // handlers are unknown
	}
	if a.source, pods = a.cfg.Source(ctx, a.podHost()); modules == nil {
		modules = a.scrapes.Check(a.within(ctx))
	}
	return joinChecks(web, modules, err, pods)
}

// joinChecks joins the errors of the parts of the configuration. If one error quotes another, it omits one of
// them: a wrong entry of prober.yaml is reported once, and not for each probe that needs its plugin. Any
// other error of a plugin is reported at the probes that need it.
func joinChecks(parts ...error) error {
	all := joined.Errors(errors.Join(parts...))
	return errors.Join(slices.DeleteFunc(slices.Clone(all), func(err error) bool {
		return slices.ContainsFunc(all, func(other error) bool {
			return isEntry(other) && strings.HasSuffix(err.Error(), ": "+other.Error()) ||
				!isEntry(err) && strings.HasSuffix(other.Error(), ": "+err.Error())
		})
	})...)
}

// isEntry reports whether err is about an entry of prober.yaml.
func isEntry(err error) bool {
	e, ok := err.(*admit.PluginError)
	if !ok {
		return false
	}
	field, ok := errors.AsType[*plugin.FieldError](e)
	return ok && strings.HasPrefix(field.Field, "plugins[")
}

// configured applies prober.yaml to the parts of the agent other than plugins. On an error, the last good
// configuration stays.
func (a *Agent) configured(c *config.Agent) error {
	if err := errors.Join(notify.Check(a.cfg.ConfigFile, c.Notify)...); err != nil {
		return &admit.ConfigError{Err: err}
	}
	scrapes, err := a.scrapeToken(c.Blackbox)
	if err != nil {
		return &admit.ConfigError{Err: err}
	}
	if a.offline == nil {
		if err := a.pushes.Set(a.cfg.ConfigFile, c.Push); err != nil {
			return &admit.ConfigError{Err: err}
		}
		a.endpoints.Set(c.Endpoints)
	}
	a.guard.SetScrapes(scrapes)
	a.scrapeRules.Store(c.Blackbox)
	labels := slices.SortedFunc(slices.Values(c.TargetLabels), func(x, y config.TargetLabel) int { return strings.Compare(x.Metric, y.Metric) })
	a.targetLabels.Store(&labels)
	a.selectors.set(c)
	if a.offline == nil {
		a.exporter.Set(a.cfg.ConfigFile, c.OTLP)
		a.notifier.Set(a.cfg.ConfigFile, c.Notify)
		a.maintenance.Set(c.Maintenance)
		a.slos.Set(c.SLO)
		a.judge.Set(a.dependencies(c))
		if a.cfg.Configured != nil {
			a.cfg.Configured(c)
		}
	}
	return nil
}

// dependencies returns the dependencies in prober.yaml. An agent that counts trouble of its host as failures
// has no uplink.
func (a *Agent) dependencies(c *config.Agent) depend.Rules {
	rules := depend.Rules{DependsOn: c.Dependencies()}
	if !a.cfg.Compat.Has(probe.CompatHostTrouble) {
		rules.Uplink = c.WitnessGroups()
	}
	return rules
}

// scrapeToken returns the token that scrapes need; nil if they need none.
func (a *Agent) scrapeToken(c *config.Blackbox) (*access.Token, error) {
	if c == nil || c.TokenFile == "" || a.offline != nil {
		return nil, nil
	}
	path := c.TokenFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(a.cfg.ConfigFile), path)
	}
	token, err := access.TokenFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: blackbox.tokenFile: %w", a.cfg.ConfigFile, err)
	}
	return token, nil
}

// mayScrape reports whether scrapes may probe a target with that host.
func (a *Agent) mayScrape(host string) bool { return a.scrapeRules.Load().Allows(host) }

// Notes are the findings of [Validate] other than errors.
type Notes struct {
	// Unchecked are the handlers that could not be checked, sorted: plugins in registries, and all handlers
	// that are not part of the program if the config has neither plugin folders nor prober.yaml.
	Unchecked []string
	Warnings  []string // in the order in which they were found
}

// Validate makes the checks of [New] and of a reload without starting anything. Its result does not depend on
// this host: it runs no programs, queries no registries and reads no secrets. Its error joins all problems.
// It does not start the source of pods.
func Validate(ctx context.Context, cfg Config) (Notes, error) {
	cfg.PollInterval = cmp.Or(cfg.PollInterval, time.Hour) // files are read only once
	a := &Agent{cfg: cfg, offline: &offline{missing: make(map[string]bool)}, metrics: metrics.New(metrics.Config{Version: cfg.Version})}
	a.log = slog.New(a.offline)
	a.guard.Web, a.guard.Addr = access.Web{ConfigFile: cfg.WebConfigFile, Insecure: true}, &net.TCPAddr{}
	handlers := a.cfg.plugins()
	handlers.Offline, handlers.Runner, handlers.Metrics, handlers.Log = true, containerRunner{&a.source}, a.metrics, a.log
	err := a.loadAndCheck(ctx, handlers)
	if a.handlers != nil {
		err = errors.Join(err, a.handlers.Close())
	}
	return Notes{Unchecked: slices.Sorted(maps.Keys(a.offline.missing)), Warnings: a.offline.warnings}, err
}

// offline collects the findings of [Validate]. It is also the handler of the log.
type offline struct {
	mu       sync.Mutex
	missing  map[string]bool // handlers that could not be checked
	warnings []string
}

var _ slog.Handler = (*offline)(nil)

// Enabled implements [slog.Handler].
func (o *offline) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// WithAttrs implements [slog.Handler].
func (o *offline) WithAttrs([]slog.Attr) slog.Handler { return o }

// WithGroup implements [slog.Handler].
func (o *offline) WithGroup(string) slog.Handler { return o }

// Handle implements [slog.Handler].
func (o *offline) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += ": " + a.Value.String()
		return true
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.warnings, text) {
		o.warnings = append(o.warnings, text)
	}
	return nil
}

// within prepares handlers with ctx, as [manager.Handlers] takes no context.
type within struct {
	ctx   context.Context
	agent *Agent
}

func (a *Agent) within(ctx context.Context) within { return within{ctx, a} }

// Prepare implements [manager.Handlers].
func (w within) Prepare(name string, config []byte, target probe.Target) (probe.Handler, error) {
	h, err := w.agent.handlers.PrepareWithin(w.ctx, name, config, target)
	if o := w.agent.offline; o != nil && err != nil && w.ctx.Err() == nil {
		_, unknown := errors.AsType[*handlers.UnknownError](err)
		if errors.Is(err, admit.ErrPending) || unknown && w.agent.cfg.withoutPlugins() {
			o.missing[name] = true
			return unchecked{}, nil
		}
		return unchecked{}, w.errorsWithoutSecrets(err, name, config, target)
	}
	return h, err
}

// withoutPlugins reports whether neither plugin folders nor prober.yaml are set. The plugins and the secrets
// of the agent are unknown then.
func (c *Config) withoutPlugins() bool {
	return len(c.PluginDirs) == 0 && c.ConfigFile == "" && len(c.DevPlugins) == 0
}

// unchecked stands for a handler that could not be checked. It probes nothing.
type unchecked struct{ probe.HandlerFunc }

// CheckSecrets implements [probe.SecretChecker].
func (unchecked) CheckSecrets([]string) error { return nil }

// errorsWithoutSecrets returns the errors of a config that do not depend on the values of secrets: errors
// that remain when all strings with references to secrets are removed.
func (w within) errorsWithoutSecrets(err error, name string, config []byte, target probe.Target) error {
	var document any
	if json.Unmarshal(config, &document) != nil {
		return err
	}
	rest, found := withoutReferences(document)
	if !found {
		return err
	}
	config, _ = json.Marshal(rest) // cannot fail: it was decoded from JSON
	h, again := w.agent.handlers.PrepareWithin(w.ctx, name, config, target)
	probe.Release(h)
	both := make(map[string]bool)
	for _, e := range joined.Errors(again) {
		both[e.Error()] = true
	}
	return errors.Join(slices.DeleteFunc(joined.Errors(err), func(e error) bool { return !both[e.Error()] })...)
}

// withoutReferences removes the fields and items of v that are strings with references to secrets. found
// reports whether there were any.
func withoutReferences(v any) (rest any, found bool) {
	isReference := func(v any) bool {
		text, ok := v.(string)
		isOne := ok && (strings.Contains(text, "${file:") || strings.Contains(text, "${env:"))
		found = found || isOne
		return isOne
	}
	switch v := v.(type) {
	case []any:
		all := slices.DeleteFunc(v, isReference)
		for i := range all {
			below := false
			all[i], below = withoutReferences(all[i])
			found = found || below
		}
		return all, found
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, v any) bool { return isReference(v) })
		for name := range v {
			below := false
			v[name], below = withoutReferences(v[name])
			found = found || below
		}
	}
	return v, found
}
