package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/importcmd"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/pods/local/manifest"
)

func newValidate(env *command.Env) *cobra.Command {
	v := &validation{env: env}
	c := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check manifests, prober.yaml and plugin configs, without an agent",
		Long: "Check manifests (files, folders and -), prober.yaml and plugin.yaml, and check the configs of\n" +
			"probes with the plugins that are part of prober and the plugins in --plugins folders.\n\n" +
			"It makes the same checks as prober run with these flags makes before it starts anything, and as a\n" +
			"reload makes. Plugins that are modules check the configs of their probes, in their sandbox. It\n" +
			"runs no program, and reads no registry and no secret. A PATH that is a prober.yaml is used as\n" +
			"--config. With --config, --blackbox-config or --web.config.file no PATH is\n" +
			"required.\n\n" +
			"It prints one line for each error. Exit code 0 no errors, 1 errors, 64 wrong usage.\n\n" +
			"With --explain-compat, and without errors, it prints how each probe would behave differently with\n" +
			"prober run --compat kubelet-VERSION, for each version.",
		Example: "  prober validate pods prober.yaml --plugins /etc/prober/plugins\n" +
			"  kubectl get pod shop -o yaml | prober validate --allow-unsupported -\n" +
			"  prober validate pods --explain-compat",
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("output") && !v.compat.explain {
				return command.Usage(command.Line(cmd, args, "explain-compat", "true"), "--output: --explain-compat is required")
			}
			if v.ConfigFile != "" || v.BlackboxConfig != "" || v.WebConfigFile != "" {
				return nil
			}
			return command.AtLeast("a path")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args) },
	}
	f := c.Flags()
	f.StringArrayVar(&v.PluginDirs, "plugins", nil, "folder of plugins")
	f.StringVar(&v.ConfigFile, "config", "", "the agent's file, prober.yaml")
	f.StringVar(&v.BlackboxConfig, "blackbox-config", "", "config file of blackbox_exporter, with the modules of /probe")
	f.StringVar(&v.LockFile, "plugins-lock", "", "lock file of the allowed plugins, written by prober plugin lock")
	f.StringVar(&v.WebConfigFile, "web.config.file", "", "TLS and users of the HTTP server, in the format of Prometheus' exporter-toolkit")
	f.BoolVar(&v.allowUnsupported, "allow-unsupported", false, "accept fields that local processes do not support")
	f.BoolVar(&v.compat.explain, "explain-compat", false, "print how each probe would behave differently with --compat")
	command.OutputFlag(c, &v.compat.output, command.Table, command.JSON, command.YAML)
	f.Lookup("output").Usage = "output format of --explain-compat"
	command.NotFromEnv(f.Lookup("output"))
	return c
}

// validation is one run of `prober validate`.
type validation struct {
	agent.Config
	manifests
	compat     compatFlags
	env        *command.Env
	agentFiles []string // agent files among the paths
	badAgent   bool     // whether one of them is invalid; its errors have been printed
	wrong      int      // number of printed errors
}

// maxFile is the largest size of a file, in bytes.
const maxFile = 8 << 20

// kindLine finds the kind of files that are not manifests.
var kindLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(?:kind|\s*[{,]?\s*"kind")\s*:\s*["']?(AgentConfig|Plugin)\b`)
})

// kindOf returns the kind of a file that is not a manifest; "" for a manifest, and for a file that cannot be
// read.
func kindOf(path string) string {
	data, err := regular.Read(path, maxFile)
	if match := kindLine().FindSubmatch(data); err == nil && match != nil {
		return string(match[1])
	}
	return ""
}

func (v *validation) run(ctx context.Context, paths []string) error {
	if err := v.flags(); err != nil {
		return err
	}
	for _, path := range paths {
		other, err := v.file(path)
		if err != nil {
			return command.Usage("", "%w", err)
		}
		if !other {
			v.paths = append(v.paths, path)
		}
	}
	if err := v.chooseConfig(); err != nil {
		return err
	}
	v.Source, v.Compiler, v.Version = v.newPodSource(v.env, &v.Config, "", 0), v.env.Compiler, v.env.Version
	if v.compat.explain {
		v.Source = v.compat.watch(v.Source)
	}
	stop := v.env.Busy("checking, with plugins that are compiled at first")
	notes, err := agent.Validate(ctx, v.Config)
	stop()
	if ctx.Err() != nil {
		return command.Failed(context.Cause(ctx))
	}
	if err != nil {
		v.printErrors(err)
	}
	v.printUnchecked(notes.Unchecked)
	for _, text := range notes.Warnings {
		v.env.Warn("%s", explain.OneLine(text))
	}
	v.warnSelectors()
	if v.wrong > 0 {
		return &command.Exit{Code: command.ExitFailed}
	}
	if v.compat.explain {
		return v.compat.print(v.env)
	}
	return nil
}

// warnSelectors warns about the selectors of the agent's file that select no probe of the files. It does not where pods
// come from elsewhere: from a cluster, or lists of targets.
func (v *validation) warnSelectors() {
	if v.ConfigFile == "" || v.wrong > 0 {
		return
	}
	cfg, err := config.Load(v.ConfigFile)
	if err != nil || cfg.Kubernetes != nil || cfg.HasLists() { // the file may be a pipe, which was read before
		return
	}
	for _, s := range cfg.EmptySelectors(time.Now(), factsOf(v.checked)) {
		v.env.Warn("%s", explain.OneLine(s.Empty(v.ConfigFile, "of these files")))
	}
}

// factsOf yields what selectors compare of the probes of pods.
func factsOf(pods []*declared.Pod) iter.Seq[*config.ProbeFacts] {
	return func(yield func(*config.ProbeFacts) bool) {
		for _, d := range pods {
			pod := d.Pod()
			for _, p := range d.Probes() {
				facts := &config.ProbeFacts{Namespace: pod.Namespace, Pod: pod.Name, Container: p.Container, Kind: p.Kind.String(), Handler: p.Handler, Labels: d.Labels()}
				if !yield(facts) {
					return
				}
			}
		}
	}
}

// checkFile returns the checks of `prober validate --config` for `prober import`.
func checkFile(env *command.Env) importcmd.Validate {
	return func(ctx context.Context, configFile string, pluginDirs []string) error {
		v := validation{env: env}
		v.ConfigFile, v.PluginDirs, v.Compiler, v.Version = configFile, pluginDirs, env.Compiler, env.Version
		v.Source = v.newPodSource(env, &v.Config, "", 0)
		_, err := agent.Validate(ctx, v.Config)
		return err
	}
}

// chooseConfig uses the agent's file among the paths if --config is not set. The errors of an invalid file
// have been printed already.
func (v *validation) chooseConfig() error {
	switch {
	case v.ConfigFile != "" || len(v.agentFiles) == 0:
	case len(v.agentFiles) > 1:
		return command.Usage("set --config to one of them", "more than one path is an agent's file: %s", strings.Join(v.agentFiles, ", "))
	case !v.badAgent:
		v.ConfigFile = v.agentFiles[0]
	}
	return nil
}

// flags checks that the files and folders of the flags exist.
func (v *validation) flags() error {
	for _, path := range append([]string{v.ConfigFile, v.BlackboxConfig, v.LockFile, v.WebConfigFile}, v.PluginDirs...) {
		if _, err := os.Stat(path); path != "" && err != nil {
			return command.Usage("", "%w", err)
		}
	}
	return nil
}

// printUnchecked lists the handlers whose probes were not checked.
func (v *validation) printUnchecked(names []string) {
	if len(names) == 0 {
		return
	}
	for i := range names {
		names[i] = explain.OneLine(names[i])
	}
	why := "without --plugins"
	if len(v.PluginDirs) > 0 || v.ConfigFile != "" || v.LockFile != "" {
		why = "without a registry"
	}
	fmt.Fprintf(v.env.Stderr, "prober: %s the configs of these handlers were not checked: %s\n", why, strings.Join(names, ", "))
}

// printErrors writes one line for each error that err joins.
func (v *validation) printErrors(err error) {
	for _, e := range joined.Errors(err) {
		v.wrong++
		fmt.Fprintln(v.env.Stdout, explain.OneLine(e.Error()))
	}
}

// file checks a file that is not a manifest, and a folder without manifests. It reports whether path
// is something other than manifests.
func (v *validation) file(path string) (other bool, err error) {
	if path == "-" {
		return false, nil
	}
	data, err := regular.Read(path, maxFile)
	if errors.Is(err, regular.ErrNotRegular) {
		return false, v.folder(path) // do not read it here: it may be a pipe of manifests
	}
	if err != nil {
		return false, err
	}
	match := kindLine().FindSubmatch(data)
	if match == nil {
		return false, nil
	}
	if string(match[1]) == config.Kind {
		if !slices.Contains(v.agentFiles, path) {
			v.agentFiles = append(v.agentFiles, path)
		}
		_, err = config.Parse(path, data)
		v.badAgent = v.badAgent || err != nil
	} else {
		var m *plugin.Manifest
		if m, err = plugin.ParseManifest(path, data); err == nil && m.SecretsInArguments {
			v.env.Warn("%s: %s", path, plugin.SecretsInArgumentsWarning)
		}
	}
	if err != nil {
		v.printErrors(err)
	}
	return true, nil
}

// folder prints an error for a folder without manifests. An agent accepts an empty folder, but validating it
// is probably a mistake.
func (v *validation) folder(path string) error {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return err
	}
	files, err := (&manifest.Source{Paths: []string{path}}).Files()
	if err == nil && len(files) == 0 {
		v.printErrors(fmt.Errorf("%s: no manifest is in this folder: want *.yaml, *.yml or *.json", path))
	}
	return nil // read errors are printed with the manifests
}
