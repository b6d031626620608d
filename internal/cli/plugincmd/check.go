package plugincmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/compat"
	"github.com/daeace23/prober/plugin/plugintest"
)

func newCheck(env *command.Env) *cobra.Command {
	var (
		f                           registryFlags
		output, against, configFile string
	)
	c := &cobra.Command{
		Use:   "check [DIR|FILE] [--against REF|PATH|none]",
		Short: "Check everything about a plugin before a release",
		Long: "Check runs everything that a plugin should pass before it is released:\n\n" +
			"  load         hosts can load it\n" +
			"  vet          prober plugin vet finds nothing\n" +
			"  cases        its test cases pass, with the compiler and the interpreter\n" +
			"  conformance  the checks that every plugin must pass\n" +
			"  budgets      size, memory, fuel and start are within budgets of plugin.yaml\n" +
			"  changes      its version permits the changes since the last released one\n\n" +
			"--against names the last version: a plugin, an OCI layout, or a reference. A reference without a tag\n" +
			"means the newest version before this one. Breaking changes need a new major version, or before 1.0.0\n" +
			"a new minor version. Steps that a plugin cannot have are left out.\n\n" +
			"Check starts programs, and the commands of test cases, with your rights: read the test files of others first.\n\n" +
			"Exit code 0 all passed, 1 something failed, 64 wrong usage.",
		Example: "  prober plugin check demo\n  prober plugin check demo --against ghcr.io/me/demo\n" +
			"  prober plugin check demo --against released/demo.wasm -o json > report.json",
		Args: command.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			policy, err := admit.New(admit.Config{ConfigFile: configFile})
			if err != nil {
				return command.Usage("", "%w", err)
			}
			found, err := readPlugin(folderOf(args))
			if err != nil {
				return err
			}
			ctx, stop := env.Interruptible(cmd.Context())
			defer stop()
			previous, err := f.previous(ctx, env, against, found.Manifest)
			if err != nil {
				return err
			}
			k := &checking{env: env, found: found, folders: policy.Folders(), configured: configFile != ""}
			report, err := k.run(ctx, previous)
			if err != nil {
				return err
			}
			if err := report.write(env, output); err != nil {
				return err
			}
			hint := ""
			if failed := report.failed(); slices.Contains(failed, "cases") || slices.Contains(failed, "conformance") {
				hint = "`prober plugin test` shows each call of a failed case"
			}
			return report.exit(hint)
		},
	}
	f.add(c)
	c.Flags().StringVar(&against, "against", "", "last released version: a plugin, an OCI layout, or a reference")
	command.AgentFileFlag(c, &configFile, "the agent's file, prober.yaml, whose nagios.folders contain the allowed commands")
	command.OutputFlag(c, &output, command.Table, command.JSON, command.YAML)
	return c
}

// checking is one run of all steps about a plugin.
type checking struct {
	env        *command.Env
	found      plugin.Found
	folders    []string // for the command of a Nagios check
	configured bool     // whether folders are from a prober.yaml
	sandboxed  bool     // whether programs must not be run

	cache  string // folder of compiled modules
	files  []*plugintest.File
	report *checkReport
}

// isModule reports whether the plugin is a WebAssembly module.
func (k *checking) isModule() bool {
	return cmp.Or(k.found.Manifest.Runtime, plugin.Wasm) == plugin.Wasm
}

// run runs the steps. previous is the last released version; nil for none. The error means that a step could not
// run.
func (k *checking) run(ctx context.Context, previous *previousVersion) (*checkReport, error) {
	cache, err := os.MkdirTemp("", "prober-check-")
	if err != nil {
		return nil, command.Failed(err)
	}
	defer os.RemoveAll(cache)
	k.cache = cache
	m := k.found.Manifest
	k.report = &checkReport{Name: m.Name, Version: m.Version, Digest: k.found.Digest, Prober: k.env.Version, path: k.found.Path}
	for _, step := range []struct {
		name string
		run  func(context.Context) (step, error)
	}{
		{"load", k.load}, {"vet", k.vet}, {"cases", k.cases}, {"conformance", k.conformance}, {"budgets", k.budgets},
		{"changes", func(context.Context) (step, error) { return k.changes(previous), nil }},
	} {
		start := time.Now()
		done := k.env.Busy(fmt.Sprintf("check %s: %s", m.Name, step.name))
		s, err := step.run(ctx)
		done()
		switch {
		case ctx.Err() != nil:
			return nil, command.Failed(context.Cause(ctx))
		case err != nil:
			return nil, err
		}
		s.Name, s.Seconds = step.name, time.Since(start).Seconds()
		k.report.Steps = append(k.report.Steps, s)
		if step.name == "load" && !s.ok() {
			break // the other steps would repeat the reason
		}
	}
	k.report.OK = len(k.report.failed()) == 0
	return k.report, k.unchanged()
}

// unchanged returns an error if the plugin was changed meanwhile, since some steps read it again.
func (k *checking) unchanged() error {
	again, err := plugin.Read(k.found.Path)
	if err == nil && (again.Digest != k.found.Digest || again.Beside != k.found.Beside) {
		err = fmt.Errorf("plugin %s: it changed while it was checked", k.found.Path)
	}
	if err != nil {
		return command.Failed(err)
	}
	return nil
}

// changes compares the plugin with the previous version.
func (k *checking) changes(previous *previousVersion) step {
	if previous == nil {
		return step{LeftOut: "--against names the last version"}
	}
	if previous.found == nil {
		return step{LeftOut: "there is no older version in " + previous.place}
	}
	old := previous.found
	all := compat.Compare(compat.Side{Manifest: old.Manifest, Imports: importsOf(*old)}, compat.Side{Manifest: k.found.Manifest, Imports: importsOf(k.found)})
	verdict := compat.Judge(old.Manifest.Version, k.found.Manifest.Version, all)
	k.report.Comparison = &comparison{Verdict: verdict, Against: previous.place, Changes: all}
	s := step{Note: fmt.Sprintf("%s since %s", command.Count(len(all), "change"), old.Manifest.Version)}
	if err := verdict.Err(); err != nil {
		s.Failures = append(s.Failures, err.Error())
		for _, c := range all {
			if c.Breaking() {
				s.Failures = append(s.Failures, c.String())
			}
		}
	} else if hint := verdict.Hint(); hint != "" {
		s.Note += "; " + hint
	}
	return s
}
