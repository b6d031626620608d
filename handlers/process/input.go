package process

import (
	"fmt"
	"maps"
	"slices"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// input has the environment and the standard input of a command. Unlike arguments, only this user and
// root can read them.
type input struct {
	env   []variable
	stdin word
}

type variable struct {
	name  string
	value word
}

// parseInput returns the input of a manifest. A variable that the operator does not allow is an
// error.
func parseInput(m *plugin.Manifest, allowed []string) (input, error) {
	in := input{stdin: parseWord(m.Stdin)}
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		if !plugin.AllowsVariable(allowed, name) {
			return input{}, fmt.Errorf("env.%s: the operator does not allow this variable: add it to nagios.env of prober.yaml, as in env: [%s]", name, name)
		}
		in.env = append(in.env, variable{name, parseWord(m.Env[name])})
	}
	return in, nil
}

// check returns an error for a config value that cannot be part of the input.
func (in *input) check(config map[string]any) error {
	_, _, err := in.fill(config, &probe.Request{})
	return err
}

// fill returns the environment and the standard input, with values in place of references. If a reference
// has no value, its variable is omitted or standard input is empty.
func (in *input) fill(config map[string]any, req *probe.Request) (env []string, stdin string, err error) {
	for _, v := range in.env {
		value, _, missing, err := v.value.fill(config, req)
		switch {
		case err != nil:
			return nil, "", fmt.Errorf("env.%s: %w", v.name, err)
		case missing == "":
			env = append(env, v.name+"="+value)
		}
	}
	stdin, _, missing, err := in.stdin.fill(config, req)
	if err != nil {
		return nil, "", fmt.Errorf("stdin: %w", err)
	}
	if missing != "" {
		stdin = ""
	}
	return env, stdin, nil
}
