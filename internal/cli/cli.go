// Package cli is prober's command line. [Main] reads the arguments of a [command.Env], runs
// one command and returns the exit code. Read cli.go first; each other file is one command
// of prober, and plugincmd has those below `prober plugin`.
package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daeace23/prober/internal/cli/clientcmd"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/plugincmd"
	"github.com/daeace23/prober/internal/nearest"
)

// Version is set by the build.
var Version = "dev"

// OS returns the Env of this process.
func OS() command.Env { return command.OS(Version) }

// Main runs the command that env.Args asks for and returns the exit code.
func Main(env command.Env) int {
	root := Root(&env)
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	if logsJSON(&env, cmd, err) {
		return env.ReportJSON(err)
	}
	return env.Report(err)
}

// logsJSON reports whether cmd writes JSON to stderr.
func logsJSON(env *command.Env, cmd *cobra.Command, err error) bool {
	f := cmd.Flags().Lookup("log-format")
	if f == nil {
		return false
	}
	if f.Changed || err == nil {
		return f.Value.String() == "json"
	}
	// The flags after an invalid one were not parsed.
	line := strings.Join(env.Args, "\x00")
	format, _ := env.LookupEnv("PROBER_LOG_FORMAT")
	return f.Value.String() == "json" || format == "json" ||
		slices.Contains(env.Args, "--log-format=json") || strings.Contains(line, "--log-format\x00json")
}

// Root returns the command prober, with all of its commands.
func Root(env *command.Env) *cobra.Command {
	root := &cobra.Command{
		Use:           "prober",
		Short:         "Probe containers as the kubelet does, with handlers of your own",
		Long:          "Prober runs the kubelet's liveness, readiness and startup probes. Sandboxed plugins add other\nkinds of checks.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Example:       "  prober run -f pod.yaml --plugins /etc/prober/plugins\n  prober probe http http://127.0.0.1:8080/healthz --explain\n  prober plugin new demo --lang go",
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return command.Unknown(cmd, args[0])
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return env.SetFlags(cmd.Flags())
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return command.Usage(flagHint(cmd, err), "%w", err)
	})
	root.AddCommand(newRun(env), newNode(env), newProbe(env), newValidate(env), plugincmd.New(env), newVersion(env))
	root.AddCommand(clientcmd.New(env)...)
	root.SetHelpCommand(newHelp())
	completeFlags(root)
	completion(root)
	return root
}

// flagHint returns the nearest known flag, and where the flags are listed.
func flagHint(cmd *cobra.Command, err error) string {
	hint := cmd.CommandPath() + " --help lists the flags"
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return hint
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest.Name(unknown.GetSpecifiedName(), names); near != "" {
		hint = fmt.Sprintf("did you mean --%s? %s", near, hint)
	}
	return hint
}
