package command

import (
	"strings"

	"github.com/spf13/pflag"
)

// FlagText is a flag as man pages and documents show it.
type FlagText struct {
	Name    string // such as --listen
	Short   string // such as -n; "" if there is none
	Value   string // such as DURATION or json|yaml; "" for a switch
	Default string // "" for none
}

// TextOf returns the text of a flag.
func TextOf(f *pflag.Flag) FlagText {
	t := FlagText{Name: "--" + f.Name}
	if f.Shorthand != "" {
		t.Short = "-" + f.Shorthand
	}
	switch kind := f.Value.Type(); {
	case strings.Contains(kind, "|"):
		t.Value = kind
	case kind != "bool":
		t.Value = strings.ToUpper(strings.TrimSuffix(kind, "Array"))
	}
	if f.DefValue != "[]" && f.DefValue != "false" {
		t.Default = f.DefValue
	}
	return t
}
