package plugin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
)

const nagiosHead = "apiVersion: prober.dev/v1\nname: it\nversion: 1.0.0\nruntime: nagios\n"

func TestManifestInputErrors(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(nagiosHead, "nagios", "wasm", 1) + "env: {A: b}\n":                                                                 "plugin.yaml:1: env: must be set for runtime: nagios only",
		strings.Replace(nagiosHead, "nagios", "wasm", 1) + "stdin: x\n":                                                                    "plugin.yaml:1: stdin: must be set for runtime: nagios only",
		strings.Replace(nagiosHead, "nagios", "process", 1) + "secretsInArguments: true\n":                                                 "plugin.yaml:1: secretsInArguments: must be set for runtime: nagios only",
		nagiosHead + "command: [x]\nenv: [A]\n":                                                                                            "plugin.yaml:6: env: must be a mapping, not a list",
		nagiosHead + "command: [x]\nenv: {A-B: c}\n":                                                                                       `plugin.yaml:6: env.A-B: "A-B" is not the name of a variable`,
		nagiosHead + "command: [x]\nenv: {A: [c]}\n":                                                                                       "plugin.yaml:6: env.A: must be a string, not a list",
		nagiosHead + "command: [x]\nenv: {A: b, A: c}\n":                                                                                   "plugin.yaml:6: env.A: the field is set twice",
		nagiosHead + "command: [x, '{{config.auth.pw}}']\nconfig: {schema: {properties: {auth: {properties: {pw: {writeOnly: true}}}}}}\n": "plugin.yaml:1: command[1]: config.auth.pw is secret, and all users of the host can read the arguments of a command: pass it with env or stdin in plugin.yaml, or set secretsInArguments: true there",

		nagiosHead + "command: [x, '{{config.headers.cookie}}']\nconfig: {schema: {$ref: '#/$defs/a', $defs: {a: {properties: {headers: {additionalProperties: {format: password}}}}}}}\n": "plugin.yaml:1: command[1]: config.headers.cookie is secret, and all users of the host can read the arguments of a command: pass it with env or stdin in plugin.yaml, or set secretsInArguments: true there",
	} {
		if _, err := plugin.ParseManifest("plugin.yaml", []byte(text)); err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestManifestInput(t *testing.T) {
	m, err := plugin.ParseManifest("plugin.yaml", []byte(nagiosHead+"command: [x, '{{config.pw}}']\nenv: {A: '{{config.pw}}'}\nstdin: |\n  {{config.pw}}\n"+
		"secretsInArguments: true\nconfig: {schema: {properties: {pw: {format: password}, user: true}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if m.Env["A"] != "{{config.pw}}" || m.Stdin != "{{config.pw}}\n" || !m.HasInArguments([]string{"pw"}) || m.HasInArguments([]string{"user"}) {
		t.Errorf("got %+v", m)
	}
	if !m.Config.IsSecret("pw") || m.Config.IsSecret("user") {
		t.Error("only pw is secret")
	}
}
