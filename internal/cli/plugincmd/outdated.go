package plugincmd

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/semantic"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/index"
	"github.com/daeace23/prober/plugin/oci"
	"github.com/daeace23/prober/plugin/trust"
)

// The states of a locked plugin.
const (
	stateCurrent  = "current"
	stateOutdated = "outdated"
	stateOther    = "other bytes" // the index has another digest for the locked version
	stateUnknown  = "unknown"     // no newest version is known
)

// age is a locked plugin and its newest version.
type age struct {
	Name   string         `json:"name"`
	Locked string         `json:"locked"`
	Newest string         `json:"newest,omitempty"`
	State  string         `json:"state"`
	Step   semantic.Level `json:"step"` // from Locked to Newest
	From   string         `json:"from,omitempty"`
}

func newOutdated(env *command.Env) *cobra.Command {
	var f indexFlags
	var file, output string
	c := &cobra.Command{
		Use:   "outdated [--lock FILE] [--index INDEX]",
		Short: "List locked plugins that have newer versions",
		Long: "Outdated compares the plugins of a lock with the newest versions of an index. Without an entry there, it\n" +
			"asks the registry of a plugin that is locked from one. Pre-releases count only for pre-releases.\n\n" +
			"Exit code 0 none is outdated, 1 one is, or the index has other bytes for a locked version, 64 wrong usage.",
		Example: "  prober plugin outdated --index https://plugins.example.com/index.yaml\n  prober plugin outdated --lock /etc/prober/prober.plugins.lock -o json",
		Args:    command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ages, err := f.outdated(cmd.Context(), env, file)
			if err != nil {
				return err
			}
			return printAges(env, ages, output)
		},
	}
	f.add(c)
	command.FileFlag(c, &file, "", "lock", trust.LockFile, "lock of the plugins")
	command.OutputFlag(c, &output, command.Table, command.JSON, command.YAML)
	return c
}

func (f *indexFlags) outdated(ctx context.Context, env *command.Env, file string) ([]age, error) {
	lock, err := trust.ReadLock(file)
	if err != nil {
		return nil, command.Usage("`prober plugin lock` writes one", "%w", err)
	}
	x := &placedIndex{Index: &index.Index{}}
	if f.index != "" {
		if x, err = f.load(ctx, env); err != nil {
			return nil, err
		}
	}
	ages := []age{}
	for _, l := range lock.Plugins {
		a := age{Name: l.Name, Locked: l.Version, State: stateUnknown}
		if p, ok := x.Find(l.Name); ok {
			a.Newest, a.From = p.Newest(l.Version).Version, "index"
			if same, ok := p.Version(l.Version); ok && same.Digest != "" && same.Digest != l.Digest {
				a.State = stateOther
			}
		} else if ref, err := plugin.ParseReference(l.Source); err == nil {
			if a.Newest, err = f.newest(ctx, env, ref); err != nil {
				return nil, err
			}
			a.From = "registry"
		}
		a.compare()
		ages = append(ages, a)
	}
	return ages, nil
}

// newest returns the newest version in a repository.
func (f *indexFlags) newest(ctx context.Context, env *command.Env, ref plugin.Reference) (version string, err error) {
	err = f.withClient(ctx, env, "list "+ref.Repository, func(ctx context.Context, c *oci.Client) (err error) {
		version, err = c.Newest(ctx, ref, "")
		return err
	})
	return version, err
}

// compare sets the state, unless the bytes differ.
func (a *age) compare() {
	a.Step = semantic.Raised(a.Locked, a.Newest)
	switch {
	case a.State == stateOther || a.Newest == "":
	case semantic.Newer(a.Newest, a.Locked):
		a.State = stateOutdated
	default:
		a.State = stateCurrent
	}
}

func printAges(env *command.Env, ages []age, output string) error {
	behind := 0
	for _, a := range ages {
		if a.State == stateOutdated || a.State == stateOther {
			behind++
		}
	}
	if output != command.Table {
		if err := env.Encode(output, map[string]any{"items": ages}); err != nil {
			return err
		}
	} else {
		w := tabwriter.NewWriter(env.Stdout, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tLOCKED\tNEWEST\tSTATE\tSTEP\tFROM")
		for _, a := range ages {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Name, orDash(a.Locked), orDash(a.Newest), a.State, a.Step, orDash(a.From))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if behind > 0 {
		return &command.Exit{Code: command.ExitFailed}
	}
	return nil
}
