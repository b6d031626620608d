package command

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/nearest"
)

// maxSuggestions is the maximum number of command lines in a hint.
const maxSuggestions = 3

// Unknown returns the error of a word that is not a subcommand of cmd, before the arguments rest. Its hint
// has the command lines that the user may mean.
func Unknown(cmd *cobra.Command, word string, rest ...string) error {
	names := Names(cmd)
	hint := "known: " + strings.Join(names, ", ")
	var lines []string
	for _, meant := range candidates(cmd, word, rest) {
		args := rest
		if takes(meant, word) || len(cmd.Commands()) == 1 {
			args = append([]string{word}, rest...)
		}
		lines = append(lines, fmt.Sprintf("%q", withArgs(meant, args)))
	}
	if len(lines) == 0 {
		lines = typed(cmd, word, rest)
	}
	if len(lines) > 0 && !cmd.HasParent() {
		hint = cmd.Name() + " --help lists the commands"
	}
	if len(lines) > 0 {
		hint = fmt.Sprintf("did you mean %s? %s", strings.Join(lines[:min(len(lines), maxSuggestions)], " or "), hint)
	}
	if !cmd.HasParent() {
		return Usage(hint, "unknown command %q for %q", word, cmd.Name())
	}
	return Usage(hint, "%s: unknown command %q", cmd.CommandPath(), word)
}

// candidates returns the commands that a user may mean by a word in place of a subcommand of cmd: the nearest
// name; or commands anywhere that have the name or suggest themselves for it, or whose argument it is.
func candidates(cmd *cobra.Command, word string, rest []string) (found []*cobra.Command) {
	if near := nearest.Name(word, Names(cmd)); near != "" {
		i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == near })
		if !suggested(scope(cmd), word) {
			return cmd.Commands()[i : i+1]
		}
	}
	if subs := cmd.Commands(); len(subs) == 1 && !suggested(scope(cmd), word) {
		return subs // the word is its argument
	}
	for _, c := range all(scope(cmd)) {
		names := c != cmd && (c.Name() == word || c.HasAlias(word) || slices.Contains(c.SuggestFor, word))
		if names && fits(c, rest) || takes(c, word) && below(c, cmd) {
			found = append(found, c)
		}
	}
	return found
}

// typed returns the command lines for words of kubectl that name subcommands, such as pods,events and
// pod/shop.
func typed(cmd *cobra.Command, word string, rest []string) (lines []string) {
	for part := range strings.SplitSeq(word, ",") {
		kind, name, ok := strings.Cut(part, "/")
		for _, sub := range cmd.Commands() {
			if sub.Name() != kind && !sub.HasAlias(kind) {
				continue
			}
			args := rest
			if ok {
				args = append([]string{name}, rest...)
			}
			lines = append(lines, fmt.Sprintf("%q", withArgs(sub, args)))
		}
	}
	return lines
}

// suggested reports whether a command has the name, or suggests itself for it.
func suggested(root *cobra.Command, word string) bool {
	return slices.ContainsFunc(all(root), func(c *cobra.Command) bool { return c.Name() == word || slices.Contains(c.SuggestFor, word) })
}

// apart annotates a command whose subcommands have the names of others.
const apart = "apart"

// Apart makes the subcommands of c no suggestions for words outside of c, nor others for words in c.
func Apart(c *cobra.Command) { c.Annotations = map[string]string{apart: "true"} }

// scope returns the command below which suggestions for cmd are.
func scope(cmd *cobra.Command) *cobra.Command {
	for cmd.HasParent() && cmd.Annotations[apart] == "" {
		cmd = cmd.Parent()
	}
	return cmd
}

// all returns the commands below root that are not hidden, without those in [Apart] commands.
func all(root *cobra.Command) (found []*cobra.Command) {
	for _, c := range root.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "completion" {
			continue
		}
		found = append(found, c)
		if c.Annotations[apart] == "" {
			found = append(found, all(c)...)
		}
	}
	return found
}

func below(c, parent *cobra.Command) bool {
	for ; c != nil; c = c.Parent() {
		if c == parent {
			return true
		}
	}
	return false
}

// takes reports whether a command that a URL or an address describes takes the word as its argument.
func takes(c *cobra.Command, word string) bool {
	_, shape, _ := strings.Cut(c.Use, " ")
	scheme, _, isURL := strings.Cut(word, "://")
	switch {
	case strings.HasPrefix(shape, "URL"):
		return isURL && (scheme == "http" || scheme == "https")
	case strings.HasPrefix(shape, "HOST:PORT"):
		_, port, err := net.SplitHostPort(word)
		return !isURL && err == nil && port != ""
	default:
		return false
	}
}

// fits reports whether the first argument of the user has the form that the command takes.
func fits(c *cobra.Command, rest []string) bool {
	_, shape, _ := strings.Cut(c.Use, " ")
	if len(rest) == 0 || !strings.HasPrefix(shape, "URL") && !strings.HasPrefix(shape, "HOST:PORT") {
		return len(rest) == 0 || !strings.Contains(rest[0], "://") || !strings.HasPrefix(shape, "PATH")
	}
	return takes(c, rest[0])
}

// withArgs returns a command line with the user's arguments, or without them if the command does not take
// them. If an argument is missing, it is the command's first example.
func withArgs(c *cobra.Command, args []string) string {
	if c.HasSubCommands() && c.ValidArgsFunction == nil { // it takes no arguments of its own
		args = nil
	} else if c.ParseFlags(args) != nil || c.ValidateArgs(c.Flags().Args()) != nil {
		args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
		if c.ParseFlags(args) != nil || c.ValidateArgs(args) != nil {
			args = nil
		}
	}
	_, shape, _ := strings.Cut(c.Use, " ")
	if required := shape != "" && !strings.HasPrefix(shape, "["); required && len(args) == 0 {
		return FirstExample(c)
	}
	return Quote(append(strings.Fields(c.CommandPath()), args...))
}

// FirstExample returns the first command line of the help's examples; the path of the command if there are
// none.
func FirstExample(c *cobra.Command) string {
	first, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
	if _, line, ok := strings.Cut(first, "| "); ok {
		first = line
	}
	if first == "" {
		return c.CommandPath()
	}
	return first
}
