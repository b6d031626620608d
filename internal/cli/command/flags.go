package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The formats of -o.
const (
	Table  = "table"
	JSON   = "json"
	YAML   = "yaml"
	Nagios = "nagios"
)

// Choice is a flag that takes one of a few words.
type Choice struct {
	value *string
	known []string
}

// OneOf returns a flag that sets value to one of the known words. The word "" allows an empty default; help
// does not list it.
func OneOf(value *string, known ...string) Choice { return Choice{value, known} }

// String implements [pflag.Value].
func (c Choice) String() string { return *c.value }

// Type implements [pflag.Value].
func (c Choice) Type() string { return strings.Join(c.Words(), "|") }

// Words returns the known words, without the empty one.
func (c Choice) Words() []string {
	return slices.DeleteFunc(slices.Clone(c.known), func(w string) bool { return w == "" })
}

// Set implements [pflag.Value].
func (c Choice) Set(s string) error {
	if !slices.Contains(c.known, s) {
		return fmt.Errorf("unknown word %q; known: %s", s, strings.Join(c.Words(), ", "))
	}
	*c.value = s
	return nil
}

// OutputFlag adds -o to c; the first format is the default.
func OutputFlag(c *cobra.Command, value *string, formats ...string) {
	*value = formats[0]
	c.Flags().VarP(OneOf(value, formats...), "output", "o", "format of the output")
}

// FileFlag adds a flag that names a file. No variable sets it.
func FileFlag(c *cobra.Command, value *string, short, name, without, help string) {
	c.Flags().StringVarP(value, name, short, without, help)
	NotFromEnv(c.Flags().Lookup(name))
}

// AgentFileFlag adds --agent-config, which names prober.yaml, and its older name --config. The commands of plugins
// have both, since --config is the plugin's config in those that probe.
func AgentFileFlag(c *cobra.Command, value *string, help string) {
	c.Flags().StringVar(value, "agent-config", "", help)
	c.Flags().Var(olderName{c.Flags().Lookup("agent-config")}, "config", "older name of --agent-config")
	if err := c.Flags().MarkHidden("config"); err != nil {
		panic(err)
	}
}

// olderName is the value of a flag with another name. It counts only if the flag itself is not set.
type olderName struct{ *pflag.Flag }

// String implements [pflag.Value].
func (olderName) String() string { return "" }

// Type implements [pflag.Value].
func (olderName) Type() string { return "string" }

// Set implements [pflag.Value].
func (n olderName) Set(s string) error {
	if n.Changed {
		return nil
	}
	return n.Value.Set(s)
}

// Folder returns a command that only has subcommands.
func Folder(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: RequireCommand}
	c.AddCommand(commands...)
	return c
}

// RequireCommand returns the error of a command without a valid subcommand.
func RequireCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return Usage("known: "+strings.Join(Names(cmd), ", ")+"; "+cmd.CommandPath()+" --help describes them", "%s: a command is required", cmd.CommandPath())
	}
	return Unknown(cmd, args[0], args[1:]...)
}

// Names returns the names of the subcommands of cmd.
func Names(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// AtLeast requires one or more arguments. what names an argument with its article, for the error.
func AtLeast(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return Usage(usage(cmd), "%s: %s is required", cmd.CommandPath(), what)
	}
}

// usage returns the usage of a command with an example, for a hint.
func usage(cmd *cobra.Command) string {
	return "usage: " + cmd.UseLine() + "; for example: " + FirstExample(cmd)
}

// AtMostOne allows no argument or one.
func AtMostOne(cmd *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	return Usage(usage(cmd), "%s: want at most one argument, got %d", cmd.CommandPath(), len(args))
}

// Arguments requires exactly the arguments that words name.
func Arguments(words ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(words) {
			return nil
		}
		want := cmp.Or(strings.Join(words, " "), "no arguments")
		return Usage(usage(cmd), "%s: want %s, got %s", cmd.CommandPath(), want, Count(len(args), "argument"))
	}
}
