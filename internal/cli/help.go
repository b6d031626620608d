package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daeace23/prober/plugin"
)

// newHelp makes the command that shows the help of another.
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
				return unknownCommand(about, rest[0])
			}
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return commandNames(about), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// completion gives root cobra's command for the completion of shells, which takes a shell
// that it does not know for a wish for help.
func completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "Generate the script that lets a shell complete prober's command lines"
			c.Args, c.RunE = cobra.ArbitraryArgs, needCommand
		}
	}
}

// folderFlags name folders.
var folderFlags = []string{"plugins", "state-dir"}

// completeFlags lets shells complete the flags of c and its commands that take one of a few
// words, or a folder.
func completeFlags(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		words, ok := f.Value.(choice)
		if _, known := c.GetFlagCompletionFunc(f.Name); ok && !known {
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words.words(), cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, name := range folderFlags {
		if c.Flags().Lookup(name) != nil {
			_ = c.MarkFlagDirname(name)
		}
	}
	for _, sub := range c.Commands() {
		completeFlags(sub)
	}
}

// completePlugins returns a function that offers the plugins of the folders in dirs, and
// files.
func completePlugins(dirs *[]string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, _ := plugin.Find(*dirs, builtinNames()...)
		for _, p := range found {
			names = append(names, p.Manifest.Name)
		}
		return names, cobra.ShellCompDirectiveDefault
	}
}
