package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/plugin"
)

const head = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestParse(t *testing.T) {
	text := head + `plugins:
- name: redis
  digest: ` + digest + `
  manifest: ` + digest + `
  grants: ["tcp://10.0.0.0/8:6379"]
  limits: {memory: 16Mi, instances: 4, idle: 30s}
- name: httpjson
  source: plugins/httpjson.wasm
  errorPolicy: failure
handlers: [{name: exec, maxInFlight: 20}]
totalMemory: 512Mi
nagios: {folders: [/usr/lib/nagios/plugins], env: [PGPASSWORD, "MYSQL_*"]}
secrets: {allow: ["file:/run/secrets/*", "env:PG_*"]}
trust: {require: false, keys: []}
`
	redis, err := plugin.ParseGrant("tcp://10.0.0.0/8:6379")
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Agent{TotalMemory: 512 << 20, Trust: config.Trust{Line: 16}, Nagios: config.Nagios{Folders: []string{"/usr/lib/nagios/plugins"}, Env: []string{"PGPASSWORD", "MYSQL_*"}},
		Secrets: config.Secrets{Allow: []string{"file:/run/secrets/*", "env:PG_*"}}, Handlers: []config.Handler{{Name: "exec", MaxInFlight: 20, Line: 12}}, Plugins: []config.Plugin{
			{
				Name: "redis", Digest: digest, Manifest: digest, Grants: []plugin.Grant{redis},
				Limits: plugin.Limits{Memory: 16 << 20, Instances: 4, Idle: 30 * time.Second}, Line: 4,
			},
			{Name: "httpjson", Source: "plugins/httpjson.wasm", ErrorPolicy: plugin.PolicyFailure, Line: 9},
		}}
	got, err := config.Parse("prober.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if exec, http := got.MaxInFlight("exec"), got.MaxInFlight("http"); exec != 20 || http != 0 {
		t.Errorf("limits of exec and http: %d, %d", exec, http)
	}
}

func TestCheckHandlers(t *testing.T) {
	got, err := config.Parse("f", []byte(head+"handlers:\n- {name: exec, maxInFlight: 1}\n- {name: htp, maxInFlight: 1}\n- {name: redis, maxInFlight: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := `f:5: handlers[1].name: unknown built-in handler "htp"; known: exec, grpc, http, tcp (did you mean "http"?)` +
		"\n" + `f:6: handlers[2].name: unknown built-in handler "redis"; known: exec, grpc, http, tcp`
	if err := got.CheckHandlers("f", []string{"http", "tcp", "exec", "grpc"}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := got.CheckHandlers("f", []string{"exec", "htp", "redis"}); err != nil {
		t.Error(err)
	}
}

func TestDefault(t *testing.T) {
	got, err := config.Parse("prober.yaml", []byte(head))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), got); diff != "" {
		t.Errorf("(-default +parsed)\n%s", diff)
	}
}

func TestOTLP(t *testing.T) {
	got, err := config.Parse("f", []byte(head+"otlp: {endpoint: 'https://collector.example:4318/a/', headers: {x-scope-orgid: shop}, traces: all}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &config.OTLP{Endpoint: "https://collector.example:4318/a", Headers: map[string]string{"X-Scope-Orgid": "shop"}, Interval: time.Minute, Traces: config.AllTraces}
	if diff := cmp.Diff(want, got.OTLP); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", `f:1: the file is empty`},
		{"no mapping", "- a\n", `f:1: must be a mapping, not a list`},
		{"bad YAML", head + "plugins: [\n", `f:3: did not find expected node content`},
		{"tab", head + "plugins:\n\t- a\n", `f:4: found character that cannot start any token, such as a tab: indent with spaces`},
		{"no head", "plugins: []\n", "f:1: apiVersion: the field is required\nf:1: kind: the field is required"},
		{"another version", "apiVersion: prober.dev/v2\nkind: AgentConfig\n", `f:1: apiVersion: must be "prober.dev/v1", not "prober.dev/v2"`},
		{"another kind", "apiVersion: prober.dev/v1\nkind: Pod\n", `f:2: kind: must be "AgentConfig", not "Pod"`},
		{"two documents", head + "---\na: b\n", `f:4: must be one document: another one begins here`},
		{"unknown field", head + "plugin: []\n", `f:3: plugin: unknown field; known: apiVersion, blackbox, credentials, endpoints, handlers, kind, kubernetes, maintenance, metrics, modules, nagios, notify, otlp, plugins, push, secrets, slo, targets, totalMemory, trust, uplink (did you mean "plugins"?)`},
		{"handler without a limit", head + "handlers: [{name: exec}]\n", "f:3: handlers[0].maxInFlight: the field is required"},
		{"limit of 0", head + "handlers: [{name: exec, maxInFlight: 0}]\n", "f:3: handlers[0].maxInFlight: must be at least 1"},
		{"limit of a handler twice", head + "handlers:\n- {name: exec, maxInFlight: 1}\n- {name: exec, maxInFlight: 2}\n", `f:5: handlers[1].name: "exec" is set twice, first on line 4`},
		{"a secret from nowhere", head + "secrets: {allow: [\"vault:x\"]}\n", `f:3: secrets.allow[0]: "vault:x" is not a pattern of secrets: must be such as "file:/etc/prober/secrets/*" or "env:PG_*"`},
		{"a bad pattern of secrets", head + "secrets: {allow: [\"env:[\"]}\n", `f:3: secrets.allow[0]: "env:[": syntax error in pattern`},
		{"a pattern that leads out", head + "secrets: {allow: [\"file:/etc/../x\"]}\n", `f:3: secrets.allow[0]: "file:/etc/../x" must not contain ..`},
		{"a field of secrets", head + "secrets: {deny: []}\n", `f:3: secrets.deny: unknown field; known: allow`},
		{"a variable that is none", head + "nagios: {env: [A=B]}\n", `f:3: nagios.env[0]: "A=B" is not the name of a variable`},
		{"a field twice", head + "kind: AgentConfig\n", `f:3: kind: the field is set twice`},
		{"no list", head + "plugins: {}\n", `f:3: plugins: must be a list, not a mapping`},
		{"no name", head + "plugins:\n- {}\n", `f:4: plugins[0].name: the field is required`},
		{"bad name", head + "plugins:\n- name: A_b\n", `f:4: plugins[0].name: "A_b" is not the name of a plugin: must be at most 63 lower-case letters, digits and dashes`},
		{"name twice", head + "plugins:\n- name: a\n- name: b\n- name: a\n", `f:6: plugins[2].name: "a" is set twice, first on line 4`},
		{"null", head + "plugins:\n- name:\n", `f:4: plugins[0].name: must be a string, not null`},
		{"empty text", head + "plugins:\n- name: a\n  source: ''\n", `f:5: plugins[0].source: must not be empty`},
		{"reference", head + "plugins:\n- name: a\n  source: oci://ghcr.io/a\n", `f:5: plugins[0].source: reference "oci://ghcr.io/a": must have a :TAG or an @sha256:DIGEST`},
		{"scheme", head + "plugins:\n- name: a\n  source: https://ghcr.io/a:1\n", `f:5: plugins[0].source: reference "https://ghcr.io/a:1": "https" is not a scheme that prober knows; known: oci`},
		{"plain HTTP", head + "plugins:\n- name: a\n  plainHTTP: false\n", `f:5: plugins[0].plainHTTP: needs a source that begins with oci://`},
		{"plain truth", head + "plugins:\n- name: a\n  source: oci://ghcr.io/a:1\n  plainHTTP: 1\n", `f:6: plugins[0].plainHTTP: must be true or false, not a number`},
		{"digest", head + "plugins:\n- name: a\n  digest: sha256:12\n", `f:5: plugins[0].digest: "sha256:12" is not a digest: must be sha256: and 64 hexadecimal digits in lower case`},
		{"manifest", head + "plugins:\n- name: a\n  digest: " + digest + "\n  manifest: sha256:12\n", `f:6: plugins[0].manifest: "sha256:12" is not a digest: must be sha256: and 64 hexadecimal digits in lower case`},
		{"manifest alone", head + "plugins:\n- name: a\n  manifest: " + digest + "\n", `f:4: plugins[0].manifest: needs a digest: alone it would pin the manifest of a program, and not the program`},
		{"digest in upper case", head + "plugins:\n- name: a\n  digest: sha256:" + strings.ToUpper(digest[7:]) + "\n", `f:5: plugins[0].digest: "sha256:` + strings.ToUpper(digest[7:]) + `" is not a digest: must be sha256: and 64 hexadecimal digits in lower case`},
		{"memory", head + "plugins:\n- name: a\n  limits: {memory: -1}\n", `f:5: plugins[0].limits.memory: "-1" is not a size: must be a number of bytes such as 65536, 64Ki or 32Mi`},
		{"above the top", head + "plugins:\n- name: a\n  limits: {netRead: 1Gi}\n", `f:5: plugins[0].limits.netRead: 1Gi is above 64Mi, the most that is allowed`},
		{"a limit that is a list", head + "plugins:\n- name: a\n  limits: {netRead: [1]}\n", `f:5: plugins[0].limits.netRead: must be a number, not a list`},
		{"error policy", head + "plugins:\n- name: a\n  errorPolicy: discard\n", `f:5: plugins[0].errorPolicy: unknown value "discard"; known: error, failure`},
		{"instances", head + "plugins:\n- name: a\n  limits:\n    instances: 0\n", `f:6: plugins[0].limits.instances: must be an integer of at least 1`},
		{"grant", head + "plugins:\n- name: a\n  grants: [target, 'tcp://a']\n", `f:5: plugins[0].grants[1]: grant "tcp://a": the port is missing; * means all ports`},
		{"grants", head + "plugins:\n- name: a\n  grants: [[]]\n", `f:5: plugins[0].grants[0]: must be a string, not a list`},
		{"keys", head + "trust: {keys: a.pub}\n", `f:3: trust.keys: must be a list, not a string`},
		{"an empty key", head + "trust: {keys: ['']}\n", `f:3: trust.keys[0]: must not be empty`},
		{"require", head + "trust: {require: maybe}\n", `f:3: trust.require: must be true or false, not a string`},
		{"require without keys", head + "trust: {require: true}\n", `f:3: trust.keys: trust.require needs at least one key`},
		{"a shadow without a source", head + "plugins: [{name: a}, {name: a, shadow: true}]\n", `f:3: plugins[1].source: the field is required: a shadow needs the version to run beside the plugin`},
		{"two shadows", head + "plugins: [{name: a, shadow: true, source: x}, {name: a, shadow: true, source: x}]\n", `f:3: plugins[1].name: "a" is set twice, first on line 3`},
		{"promotion of no shadow", head + "plugins: [{name: a, promoteAfter: {ticks: 1}}]\n", `f:3: plugins[0].promoteAfter: needs shadow: true`},
		{"no ticks", head + "plugins: [{name: a, shadow: true, source: x, promoteAfter: {ticks: 0}}]\n", `f:3: plugins[0].promoteAfter.ticks: must be at least 1`},
		{"agreement", head + "plugins: [{name: a, shadow: true, source: x, promoteAfter: {ticks: 1, agreement: 99}}]\n", `f:3: plugins[0].promoteAfter.agreement: must be a number above 0 and at most 1`},
		{"credentials without plugins", head + "credentials: [{name: a, ca: a.pem}]\n", "f:3: credentials[0].plugins: the field is required"},
		{"a certificate without a key", head + "credentials: [{name: a, cert: a.pem, plugins: [x]}]\n", "f:3: credentials[0].key: a certificate needs its key, and a key its certificate"},
		{"credentials of no plugin", head + "credentials: [{name: A, plugins: [x, '*']}]\n", `f:3: credentials[0].name: "A" is not a name: must be at most 63 lower-case letters, digits and dashes` + "\n" + `f:3: credentials[0].plugins[1]: "*" is not the name of a plugin`},
		{"credentials twice", head + "credentials:\n- {name: a, plugins: [x]}\n- {name: a, plugins: [y]}\n", `f:5: credentials[1].name: "a" is set twice, first on line 4`},
		{"OTLP without an endpoint", head + "otlp: {}\n", "f:3: otlp.endpoint: the field is required"},
		{"an endpoint that is none", head + "otlp: {endpoint: localhost:4317}\n", "f:3: otlp.endpoint: must be an http:// or https:// URL"},
		{"an endpoint with a query", head + "otlp: {endpoint: 'http://a?b'}\n", "f:3: otlp.endpoint: must not have a query or a fragment: /v1/metrics and /v1/traces are appended"},
		{"an endpoint with a password", head + "otlp: {endpoint: 'http://a:b@c'}\n", "f:3: otlp.endpoint: must not have a user or a password: use bearerTokenFile"},
		{"an interval that is too short", head + "otlp: {endpoint: 'http://a', interval: 10ms}\n", "f:3: otlp.interval: must be from 1s to 24h0m0s"},
		{"traces", head + "otlp: {endpoint: 'http://a', traces: some}\n", `f:3: otlp.traces: unknown value "some"; known: all, failures, none (did you mean "none"?)`},
		{"headers", head + "otlp: {endpoint: 'http://a', headers: {'a b': c, host: d, x: \"s\\nt\"}}\n", `f:3: otlp.headers[a b]: "a b" is not the name of a header` + "\n" + "f:3: otlp.headers.host: must not be set: prober sets it\nf:3: otlp.headers.x: must be one line"},
		{"several", head + "plugins: 1\ntrust: 2\n", "f:3: plugins: must be a list, not a number\nf:4: trust: must be a mapping, not a number"},
		{"too large", head + strings.Repeat("#", 1<<20), `f:1: must be at most 1048576 bytes`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := config.Parse("f", []byte(c.text))
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if _, ok := errors.AsType[*plugin.FieldError](err); !ok {
				t.Errorf("%T is no FieldError", err)
			}
		})
	}
}

func TestReference(t *testing.T) {
	a, err := config.Parse("f", []byte(head+"plugins:\n- {name: a, source: 'oci://hub/a:1', plainHTTP: true}\n- {name: b, source: hub/b.wasm}\n- {name: c}\n"))
	if err != nil {
		t.Fatal(err)
	}
	ref, ok := a.Plugins[0].Reference()
	if want := (plugin.Reference{Registry: "hub", Repository: "a", Tag: "1"}); !ok || ref != want || !a.Plugins[0].PlainHTTP {
		t.Errorf("%+v, %t, want %+v", ref, ok, want)
	}
	for _, p := range a.Plugins[1:] {
		if ref, ok := p.Reference(); ok {
			t.Errorf("%s: %+v", p.Name, ref)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prober.yaml")
	if _, err := config.Load(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for a file that is not there", err)
	}
	if err := os.WriteFile(path, []byte(head+"plugins: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path); err == nil || !strings.HasPrefix(err.Error(), path+":3: plugins: ") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + "plugins:\n- name: a\n  digest: " + digest + "\n  limits: {memory: 1Mi, instances: 2}\n  grants: [target]\n"))
	f.Add([]byte(head + "trust: {require: true, keys: [a]}\n---\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("&a {<<: *a}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := config.Parse("f", data)
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "f:") && !strings.Contains(err.Error(), "\n") {
					t.Errorf("no place in %q", line)
				}
			}
			return
		}
		for _, p := range a.Plugins {
			if !plugin.ValidName(p.Name) || p.Limits.Instances < 0 {
				t.Errorf("%+v went through", p)
			}
		}
	})
}

func TestShadow(t *testing.T) {
	got, err := config.Parse("f", []byte(`apiVersion: prober.dev/v1
kind: AgentConfig
plugins:
- name: a
- {name: a, shadow: true, source: b.wasm, promoteAfter: {ticks: 100, agreement: 0.99}}
- {name: b, shadow: true, source: b.wasm, promoteAfter: {ticks: 1}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Plugin{
		{Name: "a", Line: 4},
		{Name: "a", Line: 5, Shadow: true, Source: "b.wasm", PromoteAfter: config.PromoteAfter{Ticks: 100, Agreement: 0.99}},
		{Name: "b", Line: 6, Shadow: true, Source: "b.wasm", PromoteAfter: config.PromoteAfter{Ticks: 1, Agreement: 1}},
	}
	if diff := cmp.Diff(want, got.Plugins); diff != "" {
		t.Error(diff)
	}
}
