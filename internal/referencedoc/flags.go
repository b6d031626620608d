package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/command"
)

// connection has the flags of every command that asks a running agent.
var connection = []string{"--ca-file", "--cert-file", "--key-file", "--request-timeout", "--server", "--token-file"}

// many is the number of commands from which on a flag is described once for all of them.
const many = 3

// flagsPage returns docs/flags.md.
func flagsPage() (string, error) {
	all := commands(cli.Root(&command.Env{}))
	users := make(map[string]int) // commands by the row of a flag
	for _, c := range all {
		for _, row := range rows(c) {
			users[row]++
		}
	}
	var b strings.Builder
	b.WriteString(head("Commands and flags", 30, "Every command of prober with its flags.", "the commands of internal/cli"))
	b.WriteString("`prober COMMAND --help` says the same for the version that you run. [Exit codes](exit-codes.md) have a page of their own.\n\n" +
		"## Flags of many commands\nThe usage of a command names those that it has. `[--server...]` stands for `" + strings.Join(connection, "`, `") + "`.\n")
	most := make(map[string]int) // users of the commonest row of a flag
	for row, n := range users {
		most[flagOf(row)] = max(most[flagOf(row)], n)
	}
	shared := slices.DeleteFunc(slices.Sorted(maps.Keys(users)), func(row string) bool {
		return users[row] < many || users[row] < most[flagOf(row)]
	})
	writeTable(&b, shared)
	for _, c := range all {
		fmt.Fprintf(&b, "\n## %s\n%s.\n\n```\n%s\n```\n", c.CommandPath(), strings.ToUpper(c.Short[:1])+strings.TrimSuffix(c.Short[1:], "."), usage(c, shared))
		writeTable(&b, slices.DeleteFunc(rows(c), func(row string) bool { return slices.Contains(shared, row) }))
	}
	return b.String(), nil
}

// usage returns the usage line of a command with its flags that are in shared.
func usage(c *cobra.Command, shared []string) string {
	var flags []string
	own := 0
	for _, row := range rows(c) {
		if !slices.Contains(shared, row) {
			own++
			continue
		}
		flags = append(flags, flagOf(row))
	}
	ofConnection := func(flag string) bool { return slices.Contains(connection, flag) }
	if rest := slices.DeleteFunc(slices.Clone(flags), ofConnection); len(flags)-len(rest) == len(connection) {
		flags = append([]string{"--server..."}, rest...)
	}
	var line strings.Builder
	line.WriteString(strings.TrimSuffix(c.UseLine(), " [flags]"))
	for _, flag := range flags {
		line.WriteString(" [" + flag + "]")
	}
	if own > 0 {
		line.WriteString(" [flags]")
	}
	return line.String()
}

// flagOf returns the flag of a row, such as "--output".
func flagOf(row string) string {
	flag, _, _ := strings.Cut(strings.TrimPrefix(row, "| `"), "`")
	flag, _, _ = strings.Cut(flag, ", ")
	flag, _, _ = strings.Cut(flag, "=")
	return flag
}

// commands returns the commands below c that do something. The shells of completion are arguments of it here.
func commands(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if sub.Runnable() {
			all = append(all, sub)
		}
		if sub.Name() != "completion" {
			all = append(all, commands(sub)...)
		}
	}
	return all
}

func writeTable(b *strings.Builder, rows []string) {
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n| flag | meaning |\n|---|---|\n%s", strings.Join(rows, ""))
	}
}

// rows returns the rows of the flags of a command, sorted.
func rows(c *cobra.Command) (all []string) {
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			all = append(all, row(f))
		}
	})
	slices.Sort(all)
	return all
}

func row(f *pflag.Flag) string {
	t := command.TextOf(f)
	name, value := t.Name, ""
	if t.Value != "" {
		name += "=" + strings.ReplaceAll(t.Value, "|", `\|`)
	}
	if t.Short != "" {
		name += ", " + t.Short
	}
	if t.Default != "" {
		value = " (default `" + t.Default + "`)"
	}
	_, usage := pflag.UnquoteUsage(f)
	return fmt.Sprintf("| `%s` | %s%s |\n", name, strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(usage), value)
}
