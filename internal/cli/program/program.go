// Package program is the common part of the command lines of prober and prober-probe. [New] makes a program
// of commands, and [Main] runs it.
package program

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
)

// Version is set by the build.
var Version = "dev"

// Main runs the command in env.Args and returns the exit code.
func Main(env *command.Env, root *cobra.Command) int {
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	if logsJSON(env, cmd, err) {
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

// New adds commands to root, and the commands for its version, help and completion.
func New(env *command.Env, root *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = cobra.ArbitraryArgs
	version := root.Flags().Bool("version", false, "print the version")
	command.NotFromEnv(root.Flags().Lookup("version"))
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			return writeVersion(env, root.Name())
		}
		if len(args) == 0 {
			return cmd.Help()
		}
		return command.Unknown(cmd, args[0], args[1:]...)
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return env.SetFlags(cmd.Flags())
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagError(env, cmd, err) })
	root.AddCommand(newVersion(env, root.Name()))
	root.AddCommand(commands...)
	root.SetHelpCommand(newHelp())
	completeFlags(root)
	completion(root)
	fillHelp(root)
	root.SetUsageFunc(writeUsage)
	return root
}
