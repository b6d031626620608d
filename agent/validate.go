package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/blackbox"
	"github.com/daeace23/prober/agent/notify"
	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/schema"
	"github.com/daeace23/prober/probe"
)

// Validate checks manifests, plugins and prober.yaml as [New] does, but does not run code or
// depend on this host: it compiles and runs no plugin, queries no registry, reads no secret, and
// accepts commands on every system. Its error joins all errors. load reads the pods, and calls
// check for each that is otherwise valid. [Config].Source is not used.
func Validate(ctx context.Context, cfg Config, load func(ctx context.Context, check func(*v1.Pod) []error) error) (notes Notes, err error) {
	o := &offline{cfg: cfg, missing: make(map[string]bool), exposed: make(map[string]bool)}
	if err := builtin.Register(&o.registry, builtin.Config{Runner: &builtin.HostRunner{}, Compat: cfg.Compat}); err != nil {
		return notes, err
	}
	sources := cfg.plugins()
	if o.plugins, err = plugins.NewScanner(&sources, o.registry.Names(), admit.NewSources(admit.SourcesConfig{})).Scan(); err != nil {
		return notes, err
	}
	o.secrets = secrets.PolicyOf(cfg.ConfigFile, o.plugins.Config)
	errs := []error{o.plugins.Err()}
	for _, name := range o.plugins.Names() {
		errs = append(errs, o.plugins.WithoutPlugin(name))
	}
	for _, e := range o.plugins.Plugins() {
		if e.Loadable() {
			errs = append(errs, o.registry.Register(e.Name, e.Plugin.Path, static{found: e.Plugin.Found}))
		}
	}
	errs = append(errs, load(ctx, func(pod *v1.Pod) []error { return checkProbes(ctx, manager.Declare(pod), o, o.keepReference) }))
	errs = append(errs, notify.Check(cfg.ConfigFile, o.plugins.Config.Notify)...)
	if cfg.BlackboxConfig != "" {
		errs = append(errs, blackbox.Check(cfg.BlackboxConfig, o.Prepare))
	}
	notes.Unchecked, notes.SecretsInArguments = slices.Sorted(maps.Keys(o.missing)), slices.Sorted(maps.Keys(o.exposed))
	return notes, errors.Join(errs...)
}

// Notes are the findings of [Validate] that are not errors. All names are sorted.
type Notes struct {
	// Unchecked are handlers that could not be checked: plugins in registries, and, if the config
	// has neither plugin folders nor prober.yaml, all that are not built in.
	Unchecked []string
	// SecretsInArguments are checks that get a secret in an argument, which all users of the host
	// can read.
	SecretsInArguments []string
}

// offline prepares handlers without running anything.
type offline struct {
	cfg      Config
	plugins  *admit.Snapshot
	secrets  secrets.Policy
	registry handlers.Registry
	missing  map[string]bool // handlers that could not be checked
	exposed  map[string]bool // handlers that get secrets in arguments
}

// Prepare implements [manager.Handlers].
func (o *offline) Prepare(name string, config []byte, target probe.Target) (probe.Handler, error) {
	known := slices.Contains(o.registry.Names(), name)
	switch {
	case !known && (o.unnamed() || o.plugins.Plugin(name).State == admit.Pending):
		o.missing[name] = true
		return static{}, nil
	case !known && o.plugins.About(name, "") != nil:
		return static{}, nil // reported already
	}
	if e := o.plugins.Plugin(name); e.Loadable() && e.Plugin.Manifest.SecretsInArguments && e.Plugin.Manifest.HasInArguments(manager.SecretFields(config)) {
		o.exposed[name] = true
	}
	return o.registry.Prepare(name, config, target)
}

// unnamed reports whether the config has neither plugin folders nor prober.yaml, so that the plugins
// of the host are not known.
func (o *offline) unnamed() bool {
	return len(o.cfg.PluginDirs) == 0 && o.cfg.ConfigFile == "" && len(o.cfg.DevPlugins) == 0
}

// static is a plugin that is checked without running it.
type static struct {
	probe.HandlerFunc // nil: it probes nothing
	found             plugin.Found
}

var (
	_ probe.Preparer      = static{}
	_ probe.SecretChecker = static{}
)

// CheckSecrets implements [probe.SecretChecker] as a check does.
func (s static) CheckSecrets(fields []string) error {
	if s.found.Manifest == nil {
		return nil
	}
	return s.found.Manifest.CheckSecrets(fields)
}

// Prepare implements [probe.Preparer]. It returns an error if the plugin would not be loaded, or
// would not accept config.
func (s static) Prepare(config []byte, _ probe.Target) (probe.Handler, error) {
	if err := s.admit(); err != nil {
		return nil, fmt.Errorf("%w (%s)", err, s.found.Path)
	}
	_, err := s.found.Manifest.Config.Apply(config)
	return s, withoutReferences(err, config)
}

// admit returns an error if the plugin would not be loaded. It does not check whether this host has
// the command of a check.
func (s static) admit() error {
	switch s.found.Manifest.Runtime {
	case plugin.Process:
		return nil
	case plugin.Nagios:
		_, _, _, err := process.CommandOf(s.found)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	default:
		return wasm.Admit(s.found)
	}
}

// keepReference resolves a reference to itself, since the secret is on another host. It returns an
// error if prober.yaml does not allow the reference. Without plugin folders and prober.yaml, it
// accepts all.
func (o *offline) keepReference(source, name string) (string, error) {
	var err error
	switch {
	case o.unnamed():
	case source == "env":
		err = o.secrets.AllowsVariable(name)
	default:
		err = o.secrets.AllowsFile(name)
	}
	return "${" + source + ":" + name + "}", err
}

// withoutReferences returns err without the errors about strings with a reference, whose values are
// not known.
func withoutReferences(err error, config []byte) error {
	var document any
	if err == nil || json.Unmarshal(config, &document) != nil {
		return err
	}
	unknown := make(map[string]bool)
	noteReferences(document, "config", unknown)
	var rest []error
	for _, err := range joined.Errors(err) {
		if e, ok := errors.AsType[*schema.FieldError](err); !ok || !unknown[e.Field] {
			rest = append(rest, err)
		}
	}
	return errors.Join(rest...)
}

// noteReferences adds the paths of the strings that have a reference.
func noteReferences(v any, path string, to map[string]bool) {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, "${file:") || strings.Contains(v, "${env:") {
			to[path] = true
		}
	case []any:
		for i := range v {
			noteReferences(v[i], path+"."+strconv.Itoa(i), to)
		}
	case map[string]any:
		for name := range v {
			noteReferences(v[name], path+"."+name, to)
		}
	}
}
