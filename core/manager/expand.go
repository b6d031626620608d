package manager

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// ExpandCommand replaces $(NAME) in command by the literal value of that variable in
// env, which is empty where env takes the value from elsewhere. A name that env does
// not have is left as it is; $$(NAME) stands for the text $(NAME). A nil command
// stays nil.
func ExpandCommand(command []string, env []v1.EnvVar) []string {
	if command == nil {
		return nil
	}
	values := make(map[string]string, len(env))
	for _, e := range env {
		values[e.Name] = e.Value
	}
	expanded := make([]string, len(command))
	for i, arg := range command {
		expanded[i] = expand(arg, values)
	}
	return expanded
}

func expand(s string, values map[string]string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text, rest := reference(after, values)
		b.WriteString(text)
		s = rest
	}
}

// reference reads what follows a dollar sign and returns its replacement.
func reference(s string, values map[string]string) (text, rest string) {
	switch {
	case strings.HasPrefix(s, "$"): // an escaped dollar sign
		return "$", s[1:]
	case strings.HasPrefix(s, "("):
		name, rest, closed := strings.Cut(s[1:], ")")
		if !closed {
			return "$(", s[1:]
		}
		if value, ok := values[name]; ok {
			return value, rest
		}
		return "$(" + name + ")", rest
	default:
		return "$", s
	}
}
