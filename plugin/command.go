package plugin

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/daeace23/prober/internal/yamlpos"
)

// Placeholder matches references such as "{{target.host}}" in a command, its environment and its
// standard input. Its only group is the name.
func Placeholder() *regexp.Regexp { return placeholder() }

var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{\s*([a-zA-Z0-9_.-]+)\s*\}\}`) })

// variable matches the name of an environment variable.
var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// CheckSecrets returns an error if the arguments of the command contain a secret field of the config,
// and the manifest does not allow it. The given fields, such as "auth.token", are secret, and also the
// fields that the schema marks. All users of the host can read arguments.
func (m *Manifest) CheckSecrets(fields []string) error {
	if m.SecretsInArguments {
		return nil
	}
	secret := func(field string) bool { return slices.Contains(fields, field) || m.Config.IsSecret(field) }
	if at, field := m.argumentOf(secret); field != "" {
		return fmt.Errorf("command[%d]: config.%s is secret, and all users of the host can read the arguments of a command: "+
			"pass it with env or stdin in plugin.yaml, or set secretsInArguments: true there", at, field)
	}
	return nil
}

// SecretsInArgumentsWarning is the warning about a plugin with secretsInArguments: true.
const SecretsInArgumentsWarning = "secretsInArguments: true lets secrets into arguments, which all users of the host can read; env and stdin are safe"

// HasInArguments reports whether the arguments of the command contain one of the fields of the
// config.
func (m *Manifest) HasInArguments(fields []string) bool {
	_, field := m.argumentOf(func(field string) bool { return slices.Contains(fields, field) })
	return field != ""
}

// argumentOf returns the index of the first argument that contains a config field for which match is
// true, and this field; field is "" if there is none.
func (m *Manifest) argumentOf(match func(field string) bool) (at int, field string) {
	for i, a := range m.Command {
		for _, text := range append([]string{a.Text}, a.Group...) {
			for _, placeholder := range Placeholder().FindAllStringSubmatch(text, -1) {
				if name, ok := strings.CutPrefix(placeholder[1], "config."); ok && match(name) {
					return i, name
				}
			}
		}
	}
	return 0, ""
}

// String returns the argument in the form of a manifest.
func (a Argument) String() string {
	if a.Group == nil {
		return a.Text
	}
	return "[" + strings.Join(a.Group, " ") + "]"
}

// AllowsVariable reports whether one of the patterns, such as PGPASSWORD or MYSQL_*, matches the
// name of an environment variable.
func AllowsVariable(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// environment reads the variables of a command.
func (d *decoder) environment(to *map[string]string) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		*to = make(map[string]string)
		d.Entries(n, path, func(key, value *yamlpos.Node, path string) {
			if !variable().MatchString(key.Value) {
				d.Errorf(key, path, "%.80q is not the name of a variable", key.Value)
				return
			}
			(*to)[key.Value], _ = d.Text(value, path)
		})
	}
}

// checkInput checks env, stdin and secretsInArguments against the rest of the manifest.
func (d *decoder) checkInput(n *yamlpos.Node, m *Manifest) {
	if m.Runtime != Nagios {
		for field, set := range map[string]bool{"env": m.Env != nil, "stdin": m.Stdin != "", "secretsInArguments": m.SecretsInArguments} {
			if set {
				d.Errorf(n, field, "must be set for runtime: nagios only")
			}
		}
		return
	}
	if err := m.CheckSecrets(nil); err != nil {
		d.Error(n, "", err)
	}
}
