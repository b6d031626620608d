package program

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
)

// build is the output of `version -o json`.
type build struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func thisBuild(env *command.Env) build {
	return build{Version: env.Version, Revision: Revision(), GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// Revision returns the commit that this program was built from; "" if it is unknown.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// writeVersion writes the version of the program name on a line.
func writeVersion(env *command.Env, name string) error {
	b := thisBuild(env)
	_, err := fmt.Fprintf(env.Stdout, "%s %s (%s, %s)\n", name, b.Version, b.GoVersion, b.Platform)
	return err
}

// newVersion returns the command that prints the version of the program name.
func newVersion(env *command.Env, name string) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Example:           "  " + name + " version -o json",
		Args:              command.Arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if output == command.Table {
				return writeVersion(env, name)
			}
			return env.Encode(output, thisBuild(env))
		},
	}
	command.OutputFlag(c, &output, command.Table, command.JSON, command.YAML)
	return c
}
