package plugincmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/cli/clitest"
)

const docsManifest = `apiVersion: prober.dev/v1
kind: Plugin
name: demo
version: 1.0.0
config:
  schema:
    type: object
    required: [user]
    properties:
      user: {type: string, description: "A role | <b>."}
      mode: {enum: [a, b], default: a}
      hosts: {type: array, items: {type: object, properties: {port: {type: integer}}}}
requests:
- {capability: net, allow: [target, "tcp://db:5432"], reason: to ask}
- {capability: kv, optional: true}
limits: {memory: 16Mi}
metrics: [{name: lag, unit: s, help: Lag.}]
examples: [{description: An example., config: {user: u}}]
`

const docsTables = "## Config\n\n| field | type | default | meaning |\n|---|---|---|---|\n" +
	"| `hosts` | list of object |  |  |\n| `hosts[].port` | integer |  |  |\n" +
	"| `mode` |  | `\"a\"` | One of \"a\", \"b\". |\n" +
	"| `user` | string |  | A role \\| &lt;b>. Required. |\n\n" +
	"## Metrics\n\n| metric | unit | meaning |\n|---|---|---|\n| `lag` | s | Lag. |\n\n" +
	"## Permissions\n\n| capability | of | why |\n|---|---|---|\n" +
	"| `net` | `target tcp://db:5432` | to ask |\n| `kv` |  | WHY (optional) |\n\n" +
	"It needs the grants `tcp://db:5432`.\n\n" +
	"## Limits\n\n| limit | value |\n|---|---|\n| `memory` | 16Mi |\n\n" +
	"## Examples\n\nAn example.\n\n```json\n{\"user\":\"u\"}\n```\n\n"

func TestPluginDocs(t *testing.T) {
	dir := t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": docsManifest, "README.md": "# Demo\n"})
	code, stdout, stderr := clitest.Run(nil, "plugin", "docs", dir)
	_, why, _ := strings.Cut(stdout, "| `kv` |  | ")
	why, _, _ = strings.Cut(why, " (optional)")
	if diff := cmp.Diff(strings.Replace(docsTables, "WHY", why, 1), stdout); code != 0 || why == "" || diff != "" {
		t.Fatalf("exit code %d\n%s\n-want +got:\n%s", code, stderr, diff)
	}
	tables := stdout

	const begin, end = "<!-- begin prober plugin docs -->\n", "<!-- end prober plugin docs -->"
	for _, c := range []struct {
		flag, readme string
		code         int
		said, want   string // "" keeps the file
	}{
		{"--write", "# Demo\n", 64, "README.md: there are no lines", ""},
		{"--write", end + "\n" + begin, 64, "README.md: there are no lines", ""},
		{"--check", "# Demo\n" + begin + end + "\nMore.\n", 1, "README.md: its tables differ from plugin.yaml", ""},
		{"--write", "# Demo\n" + begin + "old\n" + end + "\nMore.\n", 0, "README.md was updated", "# Demo\n" + begin + tables + end + "\nMore.\n"},
		{"--check", begin + tables + end, 0, "README.md is up to date", ""},
		{"--write", begin + tables + end, 0, "README.md is up to date", ""},
	} {
		clitest.WriteTree(t, dir, map[string]string{"README.md": c.readme})
		code, stdout, stderr := clitest.Run(nil, "plugin", "docs", c.flag, dir)
		if code != c.code || !strings.Contains(stdout+stderr, c.said) {
			t.Errorf("%s of %q: exit code %d\n%s%s", c.flag, c.readme, code, stdout, stderr)
		}
		want := c.want
		if want == "" {
			want = c.readme
		}
		if got, err := os.ReadFile(filepath.Join(dir, "README.md")); err != nil || string(got) != want {
			t.Errorf("%s of %q: %v, the file is\n%s", c.flag, c.readme, err, got)
		}
	}
}

// A new project has the tables of its manifest.
func TestNewReadmeHasTables(t *testing.T) {
	for _, kind := range []string{"http", "process", "nagios"} {
		dir := filepath.Join(t.TempDir(), "demo")
		run(t, "made ", "new", dir, "--kind", kind)
		run(t, "README.md is up to date\n", "docs", "--check", dir)
	}
}
