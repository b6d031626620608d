package plugin_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/plugin"
)

const full = `apiVersion: prober.dev/v1
kind: Plugin
name: redis
version: 1.2.0
description: Is redis well?
license: Apache-2.0
mode: reactor
abi: 1
sdk: go
isolation: fresh
config:
  schema:
    type: object
    additionalProperties: false
    required: [user]
    properties:
      user: {type: string}
      maxLag: {type: string, default: 5s}
      tls:
        $ref: "#/$defs/tls"
    $defs:
      tls:
        type: object
        default: {}
        properties:
          verify: {type: boolean, default: true}
requests:
- capability: net
  allow: [target]
  reason: to ask the server
limits: {memory: 16Mi, instances: 4}
metrics:
- {name: lag_seconds, unit: s, help: How far behind.}
examples:
- description: The least.
  config: {user: probe}
`

func TestManifest(t *testing.T) {
	m, err := plugin.ParseManifest("plugin.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	got := *m
	got.Config = nil
	want := plugin.Manifest{
		Name: "redis", Version: "1.2.0", Description: "Is redis well?", License: "Apache-2.0",
		Mode: plugin.Reactor, ABI: 1, SDK: "go", Isolation: plugin.Fresh,
		ExitCodes: plugin.NagiosCodes, ErrorPolicy: plugin.PolicyError,
		Requests: []plugin.Request{{Capability: "net", Allow: []string{"target"}, Reason: "to ask the server"}},
		Limits:   plugin.Limits{Memory: 16 << 20, Instances: 4},
		Metrics:  []plugin.MetricDoc{{Name: "lag_seconds", Unit: "s", Help: "How far behind."}},
		Examples: []plugin.Example{{Description: "The least.", Config: []byte(`{"user":"probe"}`)}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSchemaFillsDefaults(t *testing.T) {
	m, err := plugin.ParseManifest("plugin.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		`{"user":"a"}`:                              `{"maxLag":"5s","tls":{"verify":true},"user":"a"}`,
		`{"user":"a","maxLag":"1s","tls":{}}`:       `{"maxLag":"1s","tls":{"verify":true},"user":"a"}`,
		`{"user":"a","tls":{"verify":false,"x":1}}`: `{"maxLag":"5s","tls":{"verify":false,"x":1},"user":"a"}`,
	} {
		got, err := m.Config.Apply([]byte(config))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", config, got, err, want)
		}
	}
	for config, want := range map[string]string{
		``:                                  "config: missing property 'user'",
		`{"user":1}`:                        "config.user: got number, want string",
		`{"user":"a","tls":{"verify":"x"}}`: "config.tls.verify: got string, want boolean",
		`{"user":"a","uesr":"b"}`:           "config: additional properties 'uesr' not allowed",
		`[]`:                                "config: must be an object",
		`{`:                                 "config: unexpected EOF",
	} {
		if _, err := m.Config.Apply([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
}

func TestParseManifestLargeAliasesIsError(t *testing.T) {
	manifest := func(length, aliases int) error {
		_, err := plugin.ParseManifest("plugin.yaml", []byte("apiVersion: prober.dev/v1\nname: a\nversion: 1\nconfig:\n  schema:\n    x: &a '"+
			strings.Repeat("x", length)+"'\n    y: [*a"+strings.Repeat(",*a", aliases)+"]\n"))
		return err
	}
	if err := manifest(120_000, 1000); err == nil || !strings.Contains(err.Error(), "too large with its aliases") {
		t.Errorf("a long text and its aliases: %v", err)
	}
	if err := manifest(100, 1000); err != nil {
		t.Errorf("a short text and its aliases: %v", err)
	}
}

func TestParseManifestErrors(t *testing.T) {
	head := "apiVersion: prober.dev/v1\nname: x\nversion: 1.0.0\n"
	for source, want := range map[string]string{
		"":                               "p.yaml:1: the file is empty",
		"a: [":                           "p.yaml:1: did not find expected node content",
		head + "\tmode: reactor":         "p.yaml:3: found a tab character",
		"[]":                             "p.yaml:1: must be a mapping, not a list",
		"name: x":                        "p.yaml:1: apiVersion: the field is required",
		head + "---\na: 1":               "p.yaml:5: must be one document",
		head + "colour: red":             "p.yaml:4: colour: unknown field; known: abi, apiVersion",
		head + "version: 1.0.0":          "p.yaml:4: version: the field is set twice",
		head + "abi: 2":                  "p.yaml:4: abi: version 2 is newer than the version 1 of this prober",
		head + "abi: one":                "p.yaml:4: abi: must be an integer, not a string",
		head + "mode: daemon":            `p.yaml:4: mode: unknown value "daemon"; known: command, reactor`,
		head + "isolation: pooled":       "isolation: pooled needs stateful: true",
		head + "stateful: maybe":         "p.yaml:4: stateful: must be true or false",
		head + "description: [x]":        "p.yaml:4: description: must be a string, not a list",
		head + "limits:\n  memory: lots": `p.yaml:5: limits.memory: "lots" is not a size`,
		head + "limits: {instances: 0}":  "p.yaml:4: limits.instances: must be an integer of at least 1",
		head + "requests:\n- capability: net\n- allow: [x]":                       "p.yaml:6: requests[1].capability: the field is required",
		head + "requests:\n- capability: net\n  allow:\n  - target\n  - tcp://db": `p.yaml:8: requests[0].allow[1]: grant "tcp://db"`,
		head + "requests: {}":                          "p.yaml:4: requests: must be a list, not a mapping",
		head + "config:\n  schema:\n    type: strange": "p.yaml:6: config.schema: type:",
		head + "config: {schema: []}":                  "p.yaml:4: config.schema: a schema must be an object",
		head + "config: {schema: {type: object, required: [a]}}\nexamples:\n- config: {}": "p.yaml:6: examples[0]: config: missing property 'a'",
		strings.Replace(head, "name: x", "name: No Good", 1):                              `p.yaml:2: name: "No Good" is not a name`,
		strings.Replace(head, "/v1", "/v2", 1):                                            `p.yaml:1: apiVersion: must be "prober.dev/v1", not "prober.dev/v2"`,
	} {
		if _, err := plugin.ParseManifest("p.yaml", []byte(source)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", source, err, want)
		}
	}
	_, err := plugin.ParseManifest("p.yaml", []byte(head+"config: {schema: {required: [a, b]}}\nexamples: [{config: {a: 1}}, {config: {}}]\n"))
	if want := "p.yaml:5: examples[0]: config: missing property 'b'\np.yaml:5: examples[1]: config: missing properties 'a', 'b'"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = plugin.ParseManifest("p.yaml", []byte(head+"config: {schema: {type: strange}}\n"))
	for line := range strings.Lines(fmt.Sprint(err)) {
		if !strings.HasPrefix(line, "p.yaml:4: config.schema: ") {
			t.Errorf("a line without its place: %s", line)
		}
	}
	_, err = plugin.ParseManifest("p.yaml", []byte(head+"colour: red"))
	if e, ok := errors.AsType[*plugin.FieldError](err); !ok || e.Line != 4 || e.Field != "colour" {
		t.Errorf("got %v, want a FieldError", err)
	}
}

var module = []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00")

func FuzzManifest(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("apiVersion: prober.dev/v1\nname: &a x\nversion: *a\n<<: {}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := plugin.ParseManifest("fuzz", data)
		if err == nil && (!plugin.ValidName(m.Name) || m.Config == nil) {
			t.Errorf("accepted %+v", m)
		}
	})
}

// write writes a file below dir.
func write(t *testing.T, data []byte, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func named(name string) []byte {
	return []byte("apiVersion: prober.dev/v1\nname: " + name + "\nversion: 1.0.0\n")
}

func embed(t *testing.T, name string) []byte {
	t.Helper()
	out, err := plugin.Embed(module, named(name))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFind(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write(t, embed(t, "redis"), a, "redis.wasm")
	write(t, named("mysql"), b, "mysql", "plugin.yaml")
	write(t, module, b, "mysql", "check.wasm")
	write(t, []byte("nothing"), b, "README.md")
	write(t, []byte("nothing"), b, "folder", "README.md")
	found, err := plugin.Find([]string{a, b}, "http", "tcp")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, f.Manifest.Name+" "+f.Path+" "+f.Digest)
	}
	want := []string{
		"mysql " + filepath.Join(b, "mysql", "check.wasm") + " " + plugin.Digest(module),
		"redis " + filepath.Join(a, "redis.wasm") + " " + plugin.Digest(embed(t, "redis")),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFindErrors(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write(t, embed(t, "same"), a, "one.wasm")
	write(t, embed(t, "same"), b, "two.wasm")
	write(t, embed(t, "http"), a, "http.wasm")
	write(t, module, a, "bare.wasm")
	write(t, module[:5], a, "short.wasm")
	write(t, named("none"), b, "none", "plugin.yaml")
	write(t, []byte("name: 1"), b, "bad", "plugin.yaml")
	if err := os.Symlink("/etc/hosts", filepath.Join(b, "escape.wasm")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(b, "dangling.wasm")); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	write(t, named("linked"), outside, "plugin.yaml")
	if err := os.Symlink(outside, filepath.Join(b, "linked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(b, "no-plugin")); err != nil { // ignored
		t.Fatal(err)
	}
	found, err := plugin.Find([]string{a, b, filepath.Join(a, "missing")}, "http")
	if err != nil && strings.Contains(err.Error(), "no-plugin") {
		t.Error(err)
	}
	if len(found) != 1 || found[0].Manifest.Name != "same" {
		t.Errorf("found %v, want the one that is well", found)
	}
	if err == nil {
		t.Fatal("want errors")
	}
	for _, want := range []string{
		`plugin "same" of ` + filepath.Join(b, "two.wasm") + ": the name is taken by " + filepath.Join(a, "one.wasm"),
		`plugin "http" of ` + filepath.Join(a, "http.wasm") + `: the name is taken by the built-in handler "http"`,
		`bare.wasm: the module has no manifest inside, in the custom section "prober.manifest", and there is no plugin.yaml beside it`,
		"short.wasm: not a WebAssembly module",
		"none: there must be none.wasm or only one .wasm beside plugin.yaml, found none",
		filepath.Join(b, "bad", "plugin.yaml") + ":1: apiVersion: the field is required",
		"escape.wasm: escape.wasm is a link to /etc/hosts: path escapes from parent",
		"dangling.wasm: dangling.wasm is a link to nowhere: no such file or directory",
		"linked: it is a link to " + outside + ", out of the plugin folder",
		"plugin folder: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

func TestFindErrorConcerns(t *testing.T) {
	dir := filepath.Join("plugins", "a")
	for _, c := range []struct {
		err        plugin.FindError
		name, path string
		want       bool
	}{
		{plugin.FindError{Path: filepath.Join(dir, "demo.wasm")}, "demo", filepath.Join(dir, "demo.wasm"), true},
		{plugin.FindError{Path: filepath.Join(dir, "demo.wasm.old.wasm")}, "demo", filepath.Join(dir, "demo.wasm"), false},
		{plugin.FindError{Path: filepath.Join(dir, "demo")}, "demo", filepath.Join(dir, "demo", "x.wasm"), true},
		{plugin.FindError{Path: filepath.Join(dir, "demo")}, "demo", filepath.Join(dir, "demo.wasm"), false},
		{plugin.FindError{Path: dir}, "demo", filepath.Join(dir, "demo.wasm"), true},
		{plugin.FindError{Path: filepath.Join(dir, "x.wasm"), Name: "demo"}, "demo", "", true},
		{plugin.FindError{Path: dir}, "demo", "", false},
	} {
		if got := c.err.Concerns(c.name, c.path); got != c.want {
			t.Errorf("%+v concerns %q at %q: %v, want %v", c.err, c.name, c.path, got, c.want)
		}
	}
}

// TestModuleDigestAfterDirectChange sets Module without SetModule.
func TestModuleDigestAfterDirectChange(t *testing.T) {
	one, two := []byte("one"), []byte("two")
	var f plugin.Found
	check := func(what string, want []byte) {
		t.Helper()
		if got := f.ModuleDigest(); got != plugin.Digest(want) {
			t.Errorf("%s: %s, must be the digest of %q", what, got, want)
		}
	}
	check("no module", nil)
	f.SetModule(one)
	if f.Digest != plugin.Digest(one) {
		t.Errorf("Digest = %s", f.Digest)
	}
	check("set", one)
	f.Module = two
	check("replaced", two)
	f.Module = one[:2]
	check("cut", one[:2])
	f.Module, f.Digest = one, plugin.Digest(two)
	check("with another Digest", one)
	light := f.WithoutCode()
	if light.Module != nil || f.Module == nil {
		t.Errorf("WithoutCode: %q, and the original is %q", light.Module, f.Module)
	}
	f = light
	check("without code", nil)
	f.Module = two
	check("with other code", two)
}

// BenchmarkReadProcess reads a program of 19 MB.
func BenchmarkReadProcess(b *testing.B) {
	path := filepath.Join(b.TempDir(), "prober-plugin-large")
	if err := os.WriteFile(path, make([]byte, 19<<20), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path+".yaml", []byte("apiVersion: prober.dev/v1\nname: large\nversion: 1.0.0\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plugin.ReadProcess(path); err != nil {
			b.Fatal(err)
		}
	}
}
