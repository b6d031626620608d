package testfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// An edit may cut a script anywhere. What remains is a case that its author can add to the file.
func TestEditorDropsUnusedNames(t *testing.T) {
	const steps = `
- recv: {regex: "(?P<id>a)(?P<key>b)"}
- recv: {length: 2, as: two}
- recv: {lengthPrefix: {bytes: 2, body: body}, as: all}
- let: {sum: sha1(body), both: "concat(sum, two)"}
- send: {text: "${id} ${both}"}
- send: {text: "${key} ${all}"}
`
	path := filepath.Join(t.TempDir(), "x_test.yaml")
	text := "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./x.wasm\ncases:\n- name: a\n  want: {result: success}\n  host:\n    net:\n    - dial: tcp://a:1\n      script:" +
		strings.ReplaceAll(steps, "\n", "\n      ") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := testfile.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := testfile.NewEditor(f)
	if err != nil {
		t.Fatal(err)
	}
	for length, want := range []string{
		"", "(a)(b)", "(a)(b) length: 2", "(a)(b) length: 2 lengthPrefix: {bytes: 2}", "(a)(b) length: 2 lengthPrefix: {bytes: 2}",
		"(?P<id>a)(b) as: two body: body let: send:", "(?P<id>a)(?P<key>b) as: two body: body as: all let: send: send:",
	} {
		item, err := e.Item(0)
		if err != nil {
			t.Fatal(err)
		}
		script := yamlpos.Field(yamlpos.Field(item, "host").Content[1].Content[0], "script")
		script.Content = script.Content[:length]
		if _, err := e.Case(item); err != nil {
			t.Errorf("%d steps: %v", length, err)
		}
		got, err := yaml.Marshal(script)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for part := range strings.FieldsSeq(want) {
			next := strings.Index(string(got)[at:], part)
			if next < 0 {
				t.Fatalf("%d steps: no %q of %q in\n%s", length, part, want, got)
			}
			at += next
		}
		if named := strings.Count(string(got), "as:") + strings.Count(string(got), "body:"); named != strings.Count(want, "as:")+strings.Count(want, "body:") {
			t.Errorf("%d steps: %d names in\n%s", length, named, got)
		}
	}
}
