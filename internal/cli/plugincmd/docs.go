package plugincmd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
)

func newDocs(env *command.Env) *cobra.Command {
	var write, check bool
	c := &cobra.Command{
		Use:   "docs [DIR]",
		Short: "Write the tables of a plugin's manifest as Markdown",
		Long: "Docs prints tables of the config, the metrics, the permissions and the limits in the plugin.yaml\n" +
			"of a project, and its examples. --write puts them into the README.md of the project, between\n" +
			"these two lines:\n\n  " + docsBegin + "\n  " + docsEnd + "\n\n" +
			"With --check it changes nothing. The exit code is 1 if README.md has other tables.",
		Example: "  prober plugin docs demo\n  prober plugin docs --write demo\n  prober plugin docs --check demo",
		Args:    command.AtMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			dir := folderOf(args)
			m, _, err := readProject(dir)
			if err != nil {
				return err
			}
			if !write && !check {
				_, err := env.Stdout.Write(docsOf(m))
				return err
			}
			return writeDocs(env, filepath.Join(dir, "README.md"), docsOf(m), check)
		},
	}
	c.Flags().BoolVar(&write, "write", false, "write the tables into README.md")
	c.Flags().BoolVar(&check, "check", false, "fail if README.md has other tables")
	c.MarkFlagsMutuallyExclusive("write", "check")
	return c
}

// The lines around the tables in README.md.
const (
	docsBegin = "<!-- begin prober plugin docs -->"
	docsEnd   = "<!-- end prober plugin docs -->"
)

// maxReadme is the largest size of a README.md, in bytes.
const maxReadme = 1 << 20

// writeDocs replaces the tables in the file at path. With check it returns an error instead if they differ.
func writeDocs(env *command.Env, path string, tables []byte, check bool) error {
	old, err := regular.Read(path, maxReadme)
	if err != nil {
		return command.Usage("", "%w", err)
	}
	text, ok := withDocs(old, tables)
	switch {
	case !ok:
		return command.Usage("add them, in this order, where the tables belong", "%s: there are no lines %q and %q", path, docsBegin, docsEnd)
	case bytes.Equal(text, old):
		fmt.Fprintf(env.Stdout, "%s is up to date\n", path)
		return nil
	case check:
		return &command.Exit{Code: command.ExitFailed, Err: fmt.Errorf("%s: its tables differ from plugin.yaml", path), Hint: "`prober plugin docs --write` writes them"}
	}
	if err := regular.ReplaceBytes(path, 0o644, text); err != nil {
		return command.Failed(err)
	}
	fmt.Fprintf(env.Stdout, "%s was updated\n", path)
	return nil
}

// withDocs returns a README with tables between its two lines. ok is false if it has no such lines.
func withDocs(readme, tables []byte) (text []byte, ok bool) {
	before, rest, begun := bytes.Cut(readme, []byte(docsBegin+"\n"))
	_, after, ended := bytes.Cut(rest, []byte(docsEnd))
	if !begun || !ended {
		return nil, false
	}
	return slices.Concat(before, []byte(docsBegin+"\n"), tables, []byte(docsEnd), after), true
}

// docsOf returns the tables and examples of a manifest.
func docsOf(m *plugin.Manifest) []byte {
	var b bytes.Buffer
	writeTable(&b, "Config", []string{"field", "type", "default", "meaning"}, configRows(m))
	var rows [][]string
	for _, d := range m.Metrics {
		rows = append(rows, []string{code(d.Name), d.Unit, d.Help})
	}
	writeTable(&b, "Metrics", []string{"metric", "unit", "meaning"}, rows)
	writeTable(&b, "Permissions", []string{"capability", "of", "why"}, requestRows(m))
	if grants := neededGrants(m); len(grants) > 0 {
		fmt.Fprintf(&b, "It needs the grants %s.\n\n", code(strings.Join(grants, " ")))
	}
	rows = nil
	for _, l := range plugin.ExplainLimits(m.Limits, plugin.Limits{}) {
		if l.From == "manifest" {
			rows = append(rows, []string{code(string(l.Name)), l.Value})
		}
	}
	writeTable(&b, "Limits", []string{"limit", "value"}, rows)
	for i, e := range m.Examples {
		if i == 0 {
			b.WriteString("## Examples\n\n")
		}
		fmt.Fprintf(&b, "%s\n\n```json\n%s\n```\n\n", cell(e.Description), e.Config)
	}
	return b.Bytes()
}

// configRows returns the fields of the config. It is empty for a schema without properties.
func configRows(m *plugin.Manifest) (rows [][]string) {
	var root configSchema
	if json.Unmarshal(m.Config.JSON(), &root) != nil {
		return nil
	}
	for _, f := range root.fields(nil, "", maxConfigDepth) {
		rows = append(rows, []string{code(f.path), f.kind, code(f.value), f.notes(false)})
	}
	return rows
}

func requestRows(m *plugin.Manifest) (rows [][]string) {
	for _, r := range m.Requests {
		c, _ := plugin.CapabilityNamed(r.Capability)
		why := cmp.Or(r.Reason, c.Summary)
		if r.Optional {
			why += " (optional)"
		}
		rows = append(rows, []string{code(r.Capability), code(strings.Join(r.Allow, " ")), why})
	}
	return rows
}

// writeTable writes a section with a table. It writes nothing without rows.
func writeTable(w io.Writer, title string, head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "## %s\n\n| %s |\n|%s\n", title, strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, row := range rows {
		for i := range row {
			row[i] = cell(row[i])
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
	fmt.Fprintln(w)
}

// cell returns text as it is written in a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(explain.OneLine(text))
}

// code returns text as code, "" for "".
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(text, "`", "'") + "`"
}
