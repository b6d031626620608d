package plugincmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/plugin"
)

func newList(env *command.Env) *cobra.Command {
	var (
		output    string
		dirs      []string
		noHeaders bool
	)
	c := &cobra.Command{
		Use:     "list [DIR]... [--plugins DIR]...",
		Short:   "List the plugins in folders, and those of prober itself",
		Long:    "List shows the plugins in folders, as prober run finds them, the built plugins of project\nfolders, and those that are part of prober, whose path begins with built-in:.",
		Example: "  prober plugin list --plugins /etc/prober/plugins\n  prober plugin list demo -o json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := listPlugins(append(dirs, args...))
			if errors.Is(err, fs.ErrNotExist) {
				return command.Usage("", "%w", err)
			}
			views := make([]pluginView, 0, len(found))
			for _, f := range found {
				views = append(views, viewOf(f))
			}
			printErr := printPlugins(env, output, !noHeaders, views)
			if err != nil {
				return command.Failed(err)
			}
			return printErr
		},
	}
	c.Flags().StringArrayVar(&dirs, "plugins", nil, "folder of plugins")
	c.Flags().BoolVar(&noHeaders, "no-headers", false, "omit the headers of the table")
	command.OutputFlag(c, &output, command.Table, command.JSON, command.YAML)
	return c
}

// listPlugins returns the plugins in folders, sorted by name, and the errors of broken ones.
func listPlugins(paths []string) ([]plugin.Found, error) {
	var (
		dirs  []string
		found []plugin.Found
		errs  []error
	)
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join(path, "plugin.yaml")); err != nil {
			dirs = append(dirs, path)
			continue
		}
		f, err := findPlugin(path, nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, f)
	}
	inside, err := plugin.Find(dirs, builtinNames()...)
	found = append(found, inside...)
	own, shippedErr := shipped.Plugins()
	errs = append(errs, shippedErr)
	for _, f := range own {
		if !slices.ContainsFunc(found, func(other plugin.Found) bool { return other.Manifest.Name == f.Manifest.Name }) {
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b plugin.Found) int { return cmp.Compare(a.Manifest.Name, b.Manifest.Name) })
	return found, errors.Join(append(errs, err)...)
}

func printPlugins(env *command.Env, output string, headers bool, views []pluginView) error {
	if output != command.Table {
		return env.Encode(output, map[string]any{"items": views})
	}
	w := tabwriter.NewWriter(env.Stdout, 0, 8, 2, ' ', 0)
	if headers {
		fmt.Fprintln(w, "NAME\tVERSION\tRUNTIME\tDIGEST\tPATH")
	}
	for _, v := range views {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.Name, explain.OneLine(v.Version), v.Runtime, v.Digest[:len("sha256:")+12], v.Path)
	}
	return w.Flush()
}
