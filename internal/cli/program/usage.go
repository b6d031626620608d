package program

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is the width of help texts, in columns.
const helpWidth = 80

// writeUsage writes the usage of c like cobra, within [helpWidth].
func writeUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:")
	if c.Runnable() && !c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s", indented(c.UseLine()))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n  %s [command]", c.CommandPath())
	}
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, "\n\nAliases:\n  %s", c.NameAndAliases())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\n\nExamples:\n%s", c.Example)
	}
	writeCommands(&b, c)
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\n\nFlags:\n%s", strings.TrimRight(c.LocalFlags().FlagUsagesWrapped(helpWidth), " \n"))
	}
	if c.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\n\nGlobal Flags:\n%s", strings.TrimRight(c.InheritedFlags().FlagUsagesWrapped(helpWidth), " \n"))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\nUse \"%s [command] --help\" for more information about a command.", c.CommandPath())
	}
	b.WriteByte('\n')
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

// writeCommands writes the subcommands of c, by their groups. Commands without a group are last.
func writeCommands(b *strings.Builder, c *cobra.Command) {
	groups := append(c.Groups(), &cobra.Group{Title: "Other commands:"})
	if len(groups) == 1 {
		groups[0].Title = "Available Commands:"
	}
	for _, g := range groups {
		title := "\n\n" + g.Title
		for _, sub := range c.Commands() {
			if sub.GroupID != g.ID || !sub.IsAvailableCommand() && sub.Name() != "help" {
				continue
			}
			fmt.Fprintf(b, "%s\n  %-*s %s", title, sub.NamePadding(), sub.Name(), sub.Short)
			title = ""
		}
	}
}

// indented returns a usage line, with further lines if it is long.
func indented(line string) string {
	return "  " + strings.ReplaceAll(fill(line, helpWidth-6), "\n", "\n      ")
}

// fill breaks the lines of each paragraph of a text again, at most at width columns. Indented lines stay as they are.
func fill(text string, width int) string {
	var lines []string
	open := false // whether the last line may grow
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, " ") {
			lines, open = append(lines, line), false
			continue
		}
		for _, w := range words {
			last := len(lines) - 1
			if open && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(w) <= width {
				lines[last] += " " + w
				continue
			}
			lines, open = append(lines, w), true
		}
	}
	return strings.Join(lines, "\n")
}

// breakLine breaks a command line before a flag, or else before another word, if it is long.
func breakLine(line string) string {
	const end, next = " \\", "\n      "
	if utf8.RuneCountInString(line) <= helpWidth {
		return line
	}
	start := line[:helpWidth-len(end)+1]
	at := strings.LastIndex(start, " -")
	if at <= len(next) && !strings.ContainsAny(line, `'"`) {
		at = strings.LastIndex(start, " ")
	}
	if at <= len(next) {
		return line
	}
	return line[:at] + end + next + strings.TrimPrefix(breakLine("      "+line[at+1:]), "      ")
}

// fillHelp fills the help texts of c and its subcommands.
func fillHelp(c *cobra.Command) {
	c.Long = fill(c.Long, helpWidth)
	examples := strings.Split(c.Example, "\n")
	for i := range examples {
		examples[i] = breakLine(examples[i])
	}
	c.Example = strings.Join(examples, "\n")
	for _, sub := range c.Commands() {
		fillHelp(sub)
	}
}
