// Sdkdoc writes the tables of docs/abi.md that compare the SDKs: what each calls a function and an option of the
// contract. The rows come from package abi, and the cells from rows.go. It returns an error for an empty cell, and
// for a name that the source of the SDK does not have.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/abi"
)

//go:generate go run . ../../docs/abi.md ../../sdk

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sdkdoc PAGE SDK")
		os.Exit(64)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sdkdoc:", err)
		os.Exit(1)
	}
}

// The lines around the tables.
const (
	first = "<!-- The tables of the SDKs are written by `make docs` from internal/sdkdoc. -->\n"
	last  = "<!-- The end of the tables. -->\n"
)

// write writes the tables into the file page. sdk is the folder of the SDKs.
func write(page, sdk string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text, err := replace(string(old), sdk)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(text), 0o644)
}

// replace returns page with new tables.
func replace(page, sdk string) (string, error) {
	before, rest, ok := strings.Cut(page, first)
	_, after, ends := strings.Cut(rest, last)
	if !ok || !ends {
		return "", fmt.Errorf("the lines around the tables are missing: %q and %q", first, last)
	}
	tables, err := render(sdk)
	return before + first + tables + last + after, err
}

// row is one row of a table: the names of one thing in each SDK, in the order of [languages]. Several names are
// separated by a space. A cell that begins with "-" is the reason why there is no name.
type row struct {
	thing string
	cells [4]string
}

// languages are the columns, and the readers of the sources.
var languages = []struct {
	name string
	read func(sdk string) (*source, error)
}{
	{"Go", readGo}, {"Rust", readRust}, {"C", readC}, {"AssemblyScript", readAssemblyScript},
}

// render returns the tables, or an error with every wrong cell.
func render(sdk string) (string, error) {
	var sources []*source
	for _, l := range languages {
		s, err := l.read(sdk)
		if err != nil {
			return "", fmt.Errorf("%s: %w", l.name, err)
		}
		sources = append(sources, s)
	}
	var b strings.Builder
	errs := missing()
	for _, t := range tables() {
		fmt.Fprintf(&b, "\n| %s | Go | Rust | C | AssemblyScript |\n|---|---|---|---|---|\n", t.head)
		for _, r := range t.rows {
			fmt.Fprintf(&b, "| %s |", r.thing)
			for i, cell := range r.cells {
				if err := sources[i].check(cell, t.literal(r)); err != nil {
					errs = append(errs, fmt.Errorf("%s: %s: %w", r.thing, languages[i].name, err))
				}
				fmt.Fprintf(&b, " %s |", shown(cell))
			}
			b.WriteString("\n")
		}
	}
	return b.String() + "\n", errors.Join(errs...)
}

// shown returns a cell as Markdown.
func shown(cell string) string {
	if reason, ok := strings.CutPrefix(cell, "-"); ok {
		return strings.TrimSpace(reason)
	}
	return "`" + strings.ReplaceAll(cell, " ", "` `") + "`"
}

// table is one table. Its rows are in the order of the contract.
type table struct {
	head   string
	fields bool // the rows are fields of documents
	rows   []row
}

// literal returns the name of the field that the source of an SDK must contain for r, "" for none.
func (t *table) literal(r row) string {
	if !t.fields {
		return ""
	}
	name := strings.Trim(r.thing, "`")
	name = strings.TrimSuffix(strings.TrimSuffix(name, "[]"), ".*")
	return name[strings.LastIndexByte(name, '.')+1:]
}

func tables() []table {
	return []table{
		{head: "function", rows: inOrder(functionNames(), functions)},
		{head: "field that a guest writes", fields: true, rows: inOrder(fieldNames(), fields)},
		{head: "document that a guest reads", rows: documents},
		{head: "what else plugins need", rows: helpers},
	}
}

// functionNames returns the functions of the contract.
func functionNames() (names []string) {
	for _, f := range abi.Imports() {
		names = append(names, f.Module+"."+f.Name)
	}
	return names
}

// fieldNames returns the fields of the documents that a guest writes. The options of TLS are listed once.
func fieldNames() []string {
	names := prefixed("TLSOptions", abi.Names[abi.TLSOptions]())
	for _, name := range abi.Names[abi.HTTPRequest]() {
		if !strings.HasPrefix(name, "tls.") {
			names = append(names, "HTTPRequest."+name)
		}
	}
	names = append(names, "HTTPRequest.tls", "DialURL.ipFamily", "DialURL.sourceAddress")
	names = append(names, prefixed("DNSRequest", abi.Names[abi.DNSRequest]())...)
	names = append(names, prefixed("EchoRequest", abi.Names[abi.EchoRequest]())...)
	return append(names, prefixed("Result", abi.Names[abi.Result]())...)
}

func prefixed(document string, names []string) []string {
	for i, name := range names {
		names[i] = document + "." + name
	}
	return names
}

// inOrder returns the rows with the given names.
func inOrder(names []string, cells map[string][4]string) (rows []row) {
	for _, name := range names {
		if c, ok := cells[name]; ok {
			rows = append(rows, row{"`" + name + "`", c})
		}
	}
	return rows
}

// missing returns an error for each function and field without a row, and for each row without one.
func missing() (errs []error) {
	for _, part := range []struct {
		names []string
		cells map[string][4]string
	}{{functionNames(), functions}, {fieldNames(), fields}} {
		for _, name := range part.names {
			if _, ok := part.cells[name]; !ok {
				errs = append(errs, fmt.Errorf("%s: rows.go has no row for it", name))
			}
		}
		for name := range part.cells {
			if !slices.Contains(part.names, name) {
				errs = append(errs, fmt.Errorf("%s: it is in rows.go, but not in the contract", name))
			}
		}
	}
	return errs
}
