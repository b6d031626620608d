package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daeace23/prober/internal/explain"
)

// Line returns a command line of cmd for a hint: args, and the flags that the user has set. changes are pairs of a
// flag and its value in the hint; the value "" omits the flag.
func Line(cmd *cobra.Command, args []string, changes ...string) string {
	words := append(strings.Fields(cmd.CommandPath()), args...)
	var changed []string
	for i := 0; i+1 < len(changes); i += 2 {
		changed = append(changed, changes[i])
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Annotations[fromEnv] != nil || slices.Contains(changed, f.Name) || strings.Contains(f.Value.String(), "@") { // it may be a URL with a password
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			words = append(words, flagWords(f, v)...)
		}
	})
	for i := 0; i+1 < len(changes); i += 2 {
		if f := cmd.Flags().Lookup(changes[i]); f != nil && changes[i+1] != "" {
			words = append(words, flagWords(f, changes[i+1])...)
		}
	}
	return Quote(words)
}

// flagWords returns a flag as words of a command line.
func flagWords(f *pflag.Flag, value string) []string {
	name := "--" + f.Name
	switch {
	case f.Value.Type() != "bool":
		if f.Shorthand != "" {
			name = "-" + f.Shorthand
		}
		return []string{name, value}
	case value == "true":
		return []string{name}
	default:
		return []string{name + "=" + value}
	}
}

// Quote returns words as a line for a shell, without control characters.
func Quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = explain.OneLine(w)
		if w == "" || strings.ContainsFunc(w, needsQuotes) {
			quoted[i] = "'" + strings.ReplaceAll(quoted[i], "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func needsQuotes(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !letter && !strings.ContainsRune("-_./:=,@%+", r)
}
