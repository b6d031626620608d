package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/probe"
)

func newValidate(env *Env) *cobra.Command {
	v := &validation{env: env}
	c := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check manifests, the agent's file and plugins' configs, without running anything",
		Long: "Check manifests (files, folders and -), the agent's file (prober.yaml), plugin.yaml, and the\n" +
			"configs of probes against the schemas of the plugins in --plugins folders.\n\n" +
			"One line on stdout for each error. Exit code 0 all good, 1 something is wrong, 64 wrong usage.",
		Example: "  prober validate pods prober.yaml --plugins /etc/prober/plugins\n" +
			"  kubectl get pod shop -o yaml | prober validate --allow-unsupported -",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("usage: "+cmd.UseLine(), "%s: a path is required", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args) },
	}
	c.Flags().StringArrayVar(&v.dirs, "plugins", nil, "folder of plugins")
	c.Flags().BoolVar(&v.allowUnsupported, "allow-unsupported", false, "accept fields that a process cannot have")
	return c
}

// validation is one run of `prober validate`.
type validation struct {
	env              *Env
	dirs             []string
	allowUnsupported bool

	wrong     int      // errors told
	unchecked []string // plugins that nothing is known of
}

// maxFile bounds a file of any kind.
const maxFile = 8 << 20

// kindLine tells files that are not manifests by their kind.
var kindLine = regexp.MustCompile(`(?m)^(?:kind|\s*[{,]?\s*"kind")\s*:\s*["']?(AgentConfig|Plugin)\b`)

func (v *validation) run(ctx context.Context, paths []string) error {
	schemas, err := v.handlers()
	if err != nil {
		return err
	}
	var manifests []string
	for _, path := range paths {
		other, err := v.file(path)
		if err != nil {
			return usage("", "%w", err)
		}
		if !other {
			manifests = append(manifests, path)
		}
	}
	if len(manifests) > 0 {
		if err := v.manifests(ctx, manifests, schemas); err != nil {
			return err
		}
	}
	if len(v.unchecked) > 0 {
		slices.Sort(v.unchecked)
		fmt.Fprintf(v.env.Stderr, "prober: without --plugins nothing was checked of what is for %s\n", strings.Join(slices.Compact(v.unchecked), ", "))
	}
	if v.wrong > 0 {
		return &exit{code: exitFailed}
	}
	return nil
}

// tell writes one line for each error that err joins.
func (v *validation) tell(err error) {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range list.Unwrap() {
			v.tell(e)
		}
		return
	}
	v.wrong++
	fmt.Fprintln(v.env.Stdout, oneLine(err.Error()))
}

// file checks a file that is no manifest, and reports whether path is one.
func (v *validation) file(path string) (other bool, err error) {
	if path == "-" {
		return false, nil
	}
	data, err := regular.Read(path, maxFile)
	if errors.Is(err, regular.ErrNotRegular) {
		return false, nil // a folder, or a pipe of manifests, which can be read only once
	}
	if err != nil {
		return false, err
	}
	match := kindLine.FindSubmatch(data)
	if match == nil {
		return false, nil
	}
	if string(match[1]) == config.Kind {
		_, err = config.Parse(path, data)
	} else {
		_, err = plugin.ParseManifest(path, data)
	}
	if err != nil {
		v.tell(err)
	}
	return true, nil
}

// handlers returns what checks the configs of probes: the built-in handlers, and of
// the plugins the schemas only.
func (v *validation) handlers() (*handlers.Registry, error) {
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		return nil, &exit{code: exitFailed, err: err}
	}
	found, err := plugin.Find(v.dirs, registry.Names()...)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("", "%w", err)
	}
	if err != nil {
		v.tell(err)
	}
	for _, f := range found {
		if err := registry.Register(f.Manifest.Name, f.Path, schemaOnly{schema: f.Manifest.Config}); err != nil {
			v.tell(err)
		}
	}
	return &registry, nil
}

// schemaOnly is a plugin of which nothing but the schema is used.
type schemaOnly struct {
	probe.HandlerFunc // nil: it probes nothing
	schema            *plugin.Schema
}

var _ probe.Preparer = schemaOnly{}

func (s schemaOnly) Prepare(config []byte, _ probe.Target) (probe.Handler, error) {
	_, err := s.schema.Apply(config)
	return s, err
}

func (v *validation) manifests(ctx context.Context, paths []string, registry *handlers.Registry) error {
	source := &local.Source{Paths: paths, Stdin: v.env.Stdin, AllowUnsupported: v.allowUnsupported}
	source.Check = func(pod *v1.Pod) []error { return v.probes(pod, registry) }
	_, err := source.Load(ctx)
	if problems, ok := errors.AsType[local.Problems](err); ok {
		v.tell(problems)
	} else if err != nil {
		return usage("", "%w", err)
	}
	return nil
}

// probes holds the configs of pod's probes against their handlers. Without a folder of
// plugins nothing is known of those.
func (v *validation) probes(pod *v1.Pod, registry *handlers.Registry) (errs []error) {
	configs, errs := manager.ProbesOf(pod)
	known := make(map[string]bool)
	for _, name := range registry.Names() {
		known[name] = true
	}
	for _, c := range configs {
		if !known[c.Handler] && len(v.dirs) == 0 {
			v.unchecked = append(v.unchecked, oneLine(c.Handler))
			continue
		}
		target := probe.Target{Host: c.Target.Host, Port: c.Target.Port, Unix: c.Target.Unix}
		if _, err := registry.Prepare(c.Handler, c.Config, target); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Path, err))
		}
	}
	return errs
}

// maxConfig bounds a plugin's config in a file.
const maxConfig = 8 << 20

// rawJSON reads a config from the command line: JSON, or @FILE, which may be a pipe.
func (env *Env) rawJSON(ctx context.Context, text string) (json.RawMessage, error) {
	if len(text) > 0 && text[0] == '@' {
		data, err := regular.Input(ctx, text[1:], maxConfig, regular.Patience)
		if err != nil {
			return nil, err
		}
		text = string(data)
	}
	if !json.Valid([]byte(text)) {
		return nil, errors.New("not valid JSON")
	}
	return json.RawMessage(text), nil
}
