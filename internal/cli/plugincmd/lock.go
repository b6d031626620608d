package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/trust"
)

func newLock(env *command.Env) *cobra.Command {
	var (
		dirs       []string
		configFile string
		file       string
	)
	c := &cobra.Command{
		Use:   "lock --plugins DIR... [--agent-config FILE] [-o FILE]",
		Short: "Lock the plugins that may be loaded, byte for byte",
		Long: "Lock writes the name, version, digest, signer and source of each plugin to a file.\n" +
			"`prober run --plugins-lock FILE` then loads these plugins and no others. With --agent-config, the\n" +
			"plugins of prober.yaml are locked too, and nothing is written if one does not match its digest\n" +
			"or lacks a required signature. Changes since the last lock are printed to stderr, and so are modules\n" +
			"that prober cannot load, which it does not run.",
		Example: "  prober plugin lock --plugins /etc/prober/plugins -o /etc/prober/prober.plugins.lock",
		Args:    command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(dirs) == 0 && configFile == "" {
				return command.Usage("--plugins names a folder of plugins", "lock: --plugins or --agent-config is required")
			}
			return lockPlugins(cmd.Context(), env, admit.Config{ConfigFile: configFile}, dirs, file)
		},
	}
	c.Flags().StringArrayVar(&dirs, "plugins", nil, "folder of plugins")
	command.AgentFileFlag(c, &configFile, "the agent's file, prober.yaml")
	command.FileFlag(c, &file, "o", "out", trust.LockFile, "the lock; - writes it to stdout")
	return c
}

func lockPlugins(ctx context.Context, env *command.Env, cfg admit.Config, dirs []string, file string) error {
	policy, err := admit.New(cfg)
	if err != nil {
		return command.Usage("", "%w", err)
	}
	if _, err := pullSources(ctx, env, policy, ""); err != nil {
		return &command.Exit{Code: command.ExitFailed, Err: err, Hint: "no lock was written"}
	}
	admitted, err := policy.Find(dirs, builtinNames())
	if errors.Is(err, fs.ErrNotExist) {
		return command.Usage("no lock was written", "%w", err)
	}
	if err != nil {
		return &command.Exit{Code: command.ExitFailed, Err: err, Hint: "no lock was written"}
	}
	found, signers := make([]plugin.Found, len(admitted)), make(map[string]string)
	for i, f := range admitted {
		warnUnloadable(ctx, env, f.Found)
		found[i], signers[f.Manifest.Name] = f.Found, f.Verdict.Signer()
	}
	lock := trust.NewLock(found, func(f plugin.Found) string { return signers[f.Manifest.Name] })
	data, err := lock.Encode()
	if err != nil {
		return command.Failed(err)
	}
	if file == "-" {
		_, err = env.Stdout.Write(data)
		return err
	}
	old, err := trust.ReadLock(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return command.Usage("remove the file to start again", "%w", err)
	}
	if err := regular.ReplaceBytes(file, 0o644, data); err != nil {
		return command.Usage("", "lock: %w", err)
	}
	printLockChanges(env, file, old, lock)
	return nil
}

// printLockChanges prints the differences between two locks; old may be nil.
func printLockChanges(env *command.Env, file string, old, lock *trust.Lock) {
	before := []trust.Locked{}
	if old != nil {
		before = old.Plugins
	}
	named := func(plugins []trust.Locked, name string) int {
		return slices.IndexFunc(plugins, func(p trust.Locked) bool { return p.Name == name })
	}
	for _, p := range lock.Plugins {
		at := named(before, p.Name)
		switch {
		case at < 0:
			fmt.Fprintf(env.Stderr, "prober: added %s %s, %s\n", p.Name, explain.OneLine(p.Version), p.Digest)
		case before[at].Digest != p.Digest || before[at].Manifest != p.Manifest:
			fmt.Fprintf(env.Stderr, "prober: changed %s from %s, %s, to %s, %s\n", p.Name,
				explain.OneLine(before[at].Version), before[at].Digest, explain.OneLine(p.Version), p.Digest)
		}
	}
	for _, p := range before {
		if named(lock.Plugins, p.Name) < 0 {
			fmt.Fprintf(env.Stderr, "prober: removed %s %s, %s\n", p.Name, explain.OneLine(p.Version), p.Digest)
		}
	}
	fmt.Fprintf(env.Stderr, "prober: %s locks %s\n", file, command.Count(len(lock.Plugins), "plugin"))
}
