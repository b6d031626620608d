package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
)

// build is what `version -o json` shows.
type build struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func thisBuild(env *command.Env) build {
	b := build{Version: env.Version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}

func newVersion(env *command.Env) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Example:           "  prober version -o json",
		Args:              command.Arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild(env)
			if output == command.Table {
				_, err := fmt.Fprintf(env.Stdout, "prober %s (%s, %s)\n", b.Version, b.GoVersion, b.Platform)
				return err
			}
			return env.Encode(output, b)
		},
	}
	command.OutputFlag(c, &output, command.Table, command.JSON, command.YAML)
	return c
}
