package plugin

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Placeholder matches "{{target.host}}" and the like in a command, and in what it is given in
// its environment and on standard input. Its only group is the name.
var Placeholder = regexp.MustCompile(`\{\{\s*([a-zA-Z0-9_.-]+)\s*\}\}`)

// variable matches the name of an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// CheckSecrets says why fields of the config, such as "password" and "auth.token", may not be
// secret: a command has them in its arguments, which all users of the host can read, and the
// manifest does not say that this is fine.
func (m *Manifest) CheckSecrets(fields []string) error {
	if m.SecretsInArguments {
		return nil
	}
	if at, field := m.argumentOf(fields); field != "" {
		return fmt.Errorf("command[%d]: config.%s is secret, and all users of the host can read the arguments of a command: "+
			"hand it over with env or stdin in plugin.yaml, or set secretsInArguments: true there", at, field)
	}
	return nil
}

// HasInArguments reports whether the command has one of fields of the config in its arguments.
func (m *Manifest) HasInArguments(fields []string) bool {
	_, field := m.argumentOf(fields)
	return field != ""
}

// argumentOf returns the first argument of the command that has one of fields of the config
// in it, and which one; "" for none.
func (m *Manifest) argumentOf(fields []string) (at int, field string) {
	for i, a := range m.Command {
		for _, text := range append([]string{a.Text}, a.Group...) {
			for _, match := range Placeholder.FindAllStringSubmatch(text, -1) {
				if name, ok := strings.CutPrefix(match[1], "config."); ok && slices.Contains(fields, name) {
					return i, name
				}
			}
		}
	}
	return 0, ""
}

// Secrets returns the fields of a config that the schema calls secret, with writeOnly: true or
// format: password.
func (s *Schema) Secrets() []string {
	type property struct {
		Format     string
		WriteOnly  bool
		Properties map[string]json.RawMessage
	}
	var fields []string
	var walk func(schema []byte, at string)
	walk = func(schema []byte, at string) {
		var p property
		if json.Unmarshal(schema, &p) != nil { // true or false
			return
		}
		if at != "" && (p.WriteOnly || p.Format == "password") {
			fields = append(fields, at)
		}
		for name, inner := range p.Properties {
			walk(inner, join(at, name))
		}
	}
	walk(s.source, "")
	slices.Sort(fields)
	return fields
}

// AllowsVariable reports whether one of patterns, such as PGPASSWORD and MYSQL_*, matches the
// name of a variable.
func AllowsVariable(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// environment reads the variables of a command.
func (d *decoder) environment(m *Manifest) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.MappingNode {
			d.failf(n, path, "want a mapping of variables")
			return
		}
		m.Env = make(map[string]string)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			_, twice := m.Env[key.Value]
			var text string
			switch d.text(&text)(value, join(path, key.Value)); {
			case !variable.MatchString(key.Value):
				d.failf(key, path, "%.80q is no name of a variable", key.Value)
			case twice:
				d.failf(key, join(path, key.Value), "the variable is there twice")
			default:
				m.Env[key.Value] = text
			}
		}
	}
}

// checkInput holds what a command is given against the rest of the manifest.
func (d *decoder) checkInput(n *yaml.Node, m *Manifest) {
	if m.Runtime != Nagios {
		for field, set := range map[string]bool{"env": m.Env != nil, "stdin": m.Stdin != "", "secretsInArguments": m.SecretsInArguments} {
			if set {
				d.failf(n, field, "is for runtime: nagios")
			}
		}
		return
	}
	if err := m.CheckSecrets(m.Config.Secrets()); err != nil {
		d.fail(n, "", err)
	}
}
