package program

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daeace23/prober/internal/cli/command"
)

// newHelp returns the command that shows the help of another command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]...",
		Short:   "Show the help of a command",
		Example: "  prober help plugin test",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 && about.HasSubCommands() {
				return command.Unknown(about, rest[0], rest[1:]...)
			}
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return command.Names(about), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// completion adds cobra's command for shell completion to root. It makes an unknown shell an error.
func completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "Generate a script for shell completion"
			c.Args, c.RunE = cobra.ArbitraryArgs, command.RequireCommand
		}
	}
}

// completeFlags registers completions for the flags of c and its subcommands whose value is one of a few
// words, or a folder.
func completeFlags(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		words, ok := f.Value.(command.Choice)
		if ok {
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words.Words(), cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, name := range []string{"plugins", "state-dir"} {
		if c.Flags().Lookup(name) != nil {
			_ = c.MarkFlagDirname(name)
		}
	}
	for _, sub := range c.Commands() {
		completeFlags(sub)
	}
}
