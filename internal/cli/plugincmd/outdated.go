package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
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
	stateUnknown  = "unknown"     // no newest version is known, or the versions cannot be compared
)

// exitUnknown is the exit code if a registry does not say which version is the newest.
const exitUnknown = 3

// age is a locked plugin and its newest version.
type age struct {
	Name   string         `json:"name"`
	Locked string         `json:"locked"`
	Newest string         `json:"newest,omitempty"`
	State  string         `json:"state"`
	Step   semantic.Level `json:"step"` // from Locked to Newest
	From   string         `json:"from,omitempty"`
	Error  string         `json:"error,omitempty"` // of the registry

	ask plugin.Reference // in the registry; zero if the index has the plugin
}

func newOutdated(env *command.Env) *cobra.Command {
	var f indexFlags
	var file, output string
	c := &cobra.Command{
		Use:   "outdated [--lock FILE] [--index INDEX]",
		Short: "List locked plugins that have newer versions",
		Long: "Outdated compares the plugins of a lock with the newest versions of an index. Without an entry there, it\n" +
			"asks the registry of a plugin that is locked from one. Pre-releases count only for pre-releases.\n\n" +
			"Exit code 0 none is outdated, 1 one is, or the index has other bytes for a locked version, 3 none is and a\n" +
			"registry gave no answer, 64 wrong usage.",
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
	ages := make([]age, len(lock.Plugins))
	for n, l := range lock.Plugins {
		ages[n] = ageOf(x, l)
	}
	if slices.ContainsFunc(ages, func(a age) bool { return a.ask.Registry != "" }) {
		if err := f.askRegistries(ctx, env, ages); err != nil {
			return nil, err
		}
	}
	for n := range ages {
		ages[n].compare()
	}
	return ages, nil
}

// ageOf returns the age of a locked plugin without asking its registry.
func ageOf(x *placedIndex, l trust.Locked) age {
	a := age{Name: l.Name, Locked: l.Version, State: stateUnknown}
	if p, ok := x.Find(l.Name); ok {
		versions := make([]string, len(p.Versions))
		for n, v := range p.Versions {
			versions[n] = v.Version
		}
		a.Newest, a.From = newestFor(l.Version, versions), "index"
		if same, ok := p.Version(l.Version); ok && same.Digest != "" && same.Digest != l.Digest {
			a.State = stateOther
		}
	} else if ref, err := plugin.ParseReference(l.Source); err == nil {
		a.ask, a.From = ref, "registry"
	}
	return a
}

// newestFor returns the first of versions, which are sorted from the newest to the oldest, that counts for a locked one:
// pre-releases count only for pre-releases. It returns "" if none does.
func newestFor(locked string, versions []string) string {
	at := slices.IndexFunc(versions, func(v string) bool {
		return !semantic.IsPrerelease(v) || semantic.IsPrerelease(locked)
	})
	if at < 0 {
		return ""
	}
	return versions[at]
}

// askRegistries sets the newest version, or the error, of each plugin whose registry must be asked. After --timeout it
// sets errors. It returns an error if a signal ends it.
func (f *indexFlags) askRegistries(ctx context.Context, env *command.Env, ages []age) error {
	return f.withClient(ctx, env, "list versions", func(ctx context.Context, c *oci.Client) error {
		for n := range ages {
			a := &ages[n]
			if a.ask.Registry == "" {
				continue
			}
			versions, err := c.Versions(ctx, a.ask)
			if errors.Is(ctx.Err(), context.Canceled) {
				return err
			}
			if err != nil {
				a.Error = explain.OneLine(err.Error())
			}
			a.Newest = newestFor(a.Locked, versions)
		}
		return nil
	})
}

// compare sets the state, unless the bytes differ.
func (a *age) compare() {
	a.Step = semantic.Raised(a.Locked, a.Newest)
	switch {
	case a.State == stateOther || a.Newest == "":
	case a.Newest == a.Locked:
		a.State = stateCurrent
	case !semantic.Valid(a.Newest) || !semantic.Valid(a.Locked):
	case semantic.Newer(a.Newest, a.Locked):
		a.State = stateOutdated
	default:
		a.State = stateCurrent
	}
}

func printAges(env *command.Env, ages []age, output string) error {
	end := &command.Exit{}
	for _, a := range ages {
		if a.Error != "" {
			end.Code, end.Err = exitUnknown, errors.Join(end.Err, fmt.Errorf("plugin %q: %s", a.Name, a.Error))
		}
	}
	if slices.ContainsFunc(ages, func(a age) bool { return a.State == stateOutdated || a.State == stateOther }) {
		end.Code = command.ExitFailed
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
	if end.Code == command.ExitOK {
		return nil
	}
	return end
}
