package docstest_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/plugin"
)

const abiFile = "docs/abi.md"

// section is what stands under one heading of the page.
type section struct {
	text   string
	tables [][][]string // rows of cells, without their heads
}

var code = regexp.MustCompile("`([^`]+)`")

// codes returns what a cell has in backticks.
func codes(cell string) (found []string) {
	for _, m := range code.FindAllStringSubmatch(cell, -1) {
		found = append(found, m[1])
	}
	return found
}

// abiPage returns the sections of docs/abi.md by the first words of their headings.
func abiPage(t *testing.T) map[string]*section {
	t.Helper()
	text, err := os.ReadFile(abiFile)
	if err != nil {
		t.Fatal(err)
	}
	page, here := map[string]*section{}, &section{}
	var table [][]string
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' {
			name, _, _ := strings.Cut(strings.TrimSpace(title), ":")
			name, _, _ = strings.Cut(name, ",")
			here = &section{}
			page[strings.Trim(name, "`")] = here
		}
		here.text += line
		if line[0] == '|' {
			cells := strings.Split(strings.TrimSpace(line), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			table = append(table, cells[1:len(cells)-1])
		} else if table != nil {
			here.tables, table = append(here.tables, table[2:]), nil
		}
	}
	return page
}

// part returns the section called name.
func part(t *testing.T, name string) *section {
	t.Helper()
	s := abiPage(t)[name]
	if s == nil {
		t.Fatalf("%s has no section %q", abiFile, name)
	}
	return s
}

func source(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var signature = regexp.MustCompile("^`(\\w+)\\((.*)\\)(?: -> (\\w+))?`$")

// TestABIImports holds the tables of imports against v1.json: each function with its
// signature and in its order, and no other.
func TestABIImports(t *testing.T) {
	atRoot(t)
	var want, got []abi.Func
	if err := json.Unmarshal([]byte(source(t, "internal/abi/v1.json")), &want); err != nil {
		t.Fatal(err)
	}
	numbers := errnos(t)
	page := abiPage(t)
	modules := []string{abi.ModuleCore}
	for _, c := range plugin.Capabilities() {
		modules = append(modules, c.Module)
	}
	for _, module := range modules {
		s := page[module]
		if s == nil || len(s.tables) != 1 {
			t.Fatalf("want one table under %s", module)
		}
		for _, row := range s.tables[0] {
			m := signature.FindStringSubmatch(row[0])
			if m == nil {
				t.Fatalf("%s: no signature: %s", module, row[0])
			}
			f := abi.Func{Module: module, Name: m[1]}
			for param := range strings.SplitSeq(m[2], ", ") {
				if _, typ, ok := strings.Cut(param, ": "); ok {
					f.Params = append(f.Params, abi.Type(typ))
				} else if param != "" {
					f.Params = append(f.Params, abi.I32)
				}
			}
			if m[3] != "" {
				f.Results = []abi.Type{abi.Type(m[3])}
			}
			got = append(got, f)
			for _, name := range regexp.MustCompile(`\bE[A-Z]{3,}\b`).FindAllString(row[2], -1) {
				if _, ok := numbers[name]; !ok {
					t.Errorf("%s.%s: there is no error %s", module, f.Name, name)
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-v1.json +%s)\n%s", abiFile, diff)
	}
}

// TestABICapabilities compares the page's table with the one in package plugin.
func TestABICapabilities(t *testing.T) {
	atRoot(t)
	var got, want [][]string
	for _, row := range part(t, "Capabilities and grants").tables[0] {
		got = append(got, append([]string{strings.Join(codes(row[0]), " "), strings.Join(codes(row[1]), " "), row[2], row[4]}, codes(row[3])...))
	}
	for _, c := range plugin.Capabilities() {
		without := "nothing"
		if c.Target {
			without = "the target"
		}
		want = append(want, append([]string{c.Name, c.Module, c.Summary, without}, c.Patterns...))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-plugin.Capabilities +%s)\n%s", abiFile, diff)
	}
	names := "`" + strings.Join(plugin.CapabilityNames(), "`, `") + "`"
	for _, section := range []string{"Request", "Manifest"} {
		if !strings.Contains(part(t, section).text, names) {
			t.Errorf("%s: want %s", section, names)
		}
	}
}

func TestABIExports(t *testing.T) {
	atRoot(t)
	var got []string
	for _, row := range part(t, "Exports").tables[0] {
		got = append(got, codes(row[0])...)
	}
	want := []string{abi.ExportMemory, abi.ExportInitialize, abi.ExportProbe, abi.ExportValidateConfig, abi.ExportStart}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// constants returns the constants of the packages in dirs: the source of their values.
func constants(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, set := source(t, file), token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range parsed.Decls {
				if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.CONST {
					addConstants(found, g, text, set)
				}
			}
		}
	}
	return found
}

func addConstants(to map[string]string, g *ast.GenDecl, text string, set *token.FileSet) {
	for _, spec := range g.Specs {
		v := spec.(*ast.ValueSpec)
		for i, value := range v.Values {
			name := v.Names[i].Name
			if id, ok := v.Type.(*ast.Ident); ok {
				name = id.Name + " " + name
			}
			to[name] = text[set.Position(value.Pos()).Offset:set.Position(value.End()).Offset]
		}
	}
}

// ofType returns the constants whose declaration says that type.
func ofType(all map[string]string, typ string) map[string]string {
	found := map[string]string{}
	for name, value := range all {
		if rest, ok := strings.CutPrefix(name, typ+" "); ok {
			found[rest] = value
		}
	}
	return found
}

func errnos(t *testing.T) map[string]string {
	t.Helper()
	return ofType(constants(t, "internal/abi"), "Errno")
}

func TestABIErrors(t *testing.T) {
	atRoot(t)
	got := map[string]string{}
	for _, row := range part(t, "Errors").tables[0] {
		for i := 0; i < len(row); i += 3 {
			got[strings.Trim(row[i+1], "`")] = row[i]
			if row[i+2] == "" {
				t.Errorf("%s means nothing", row[i+1])
			}
		}
	}
	if diff := cmp.Diff(errnos(t), got); diff != "" {
		t.Errorf("(-errno.go +%s)\n%s", abiFile, diff)
	}
}

func TestABIReasons(t *testing.T) {
	atRoot(t)
	var want, got []string
	for _, value := range ofType(constants(t, "probe"), "Reason") {
		want = append(want, strings.Trim(value, `"`))
	}
	for _, row := range part(t, "Reasons").tables[0] {
		got = append(got, codes(row[0])...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-reason.go +%s)\n%s", abiFile, diff)
	}
	outcomes := part(t, "Outcomes").tables[0]
	if want := "Success, Warning, Failure, Unknown"; outcomes[0][1] != want {
		t.Errorf("a return value means %s, want %s", outcomes[0][1], want)
	}
	got = nil
	for _, row := range outcomes {
		got = append(got, codes(row[1])...)
	}
	want = []string{"guest", "protocol", "deadline", "trap", "memory", "instantiate"} // those of guests alone
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestABILimits(t *testing.T) {
	atRoot(t)
	limits := part(t, "Limits")
	var got [][]string
	for _, row := range limits.tables[0] {
		if row[3] == "" || row[4] == "" {
			t.Errorf("%s: want what it is of, and what happens when it is hit", row[0])
		}
		got = append(got, []string{strings.Trim(row[0], "`"), row[1], row[2]})
	}
	var want [][]string
	for _, l := range plugin.ExplainLimits(plugin.Limits{}, plugin.Limits{}) {
		want = append(want, []string{string(l.Name), l.Value, l.Top})
	}
	total := string(plugin.LimitNames[plugin.LimitTotalMemory])
	want = append(want, []string{total, plugin.FormatSize(plugin.DefaultTotalMemory), "none"})
	if diff := cmp.Diff(want, got); diff != "" || len(want) != len(plugin.LimitNames) {
		t.Errorf("(-plugin.LimitNames +%s)\n%s", abiFile, diff)
	}
}

// TestABIBounds holds what nobody can set against the constants that set it.
func TestABIBounds(t *testing.T) {
	atRoot(t)
	known := constants(t, "internal/abi", "handlers/wasm", "handlers/wasm/internal/binary", "handlers/wasm/internal/guest", "plugin")
	names := map[string]string{
		"name of a metric": "MaxMetricName", "its unit": "MaxUnit", "key of kv": "maxKVKey", "keys of kv": "MaxKVKeys", "path of `config_get`": "maxKey",
		"DialURL": "maxURL", "DNSRequest": "maxDNSRequest", "EchoRequest": "maxEchoRequest", "payload of an echo request": "MaxEcho", "TLSOptions": "maxOptions", "HTTPRequest": "maxHTTPRequest",
		"head of an HTTP answer": "maxHTTPHead", "manifest": "MaxManifest", "handles of one `poll`": "maxPoll",
		"levels of a document": "maxDepth", "events of one attempt that `--explain` shows": "maxTraced",
	}
	for _, row := range part(t, "Limits").tables[1] {
		values := strings.Split(row[1], ", ")
		for i, bound := range strings.Split(row[0], ", ") {
			name, ok := names[bound]
			delete(names, bound)
			value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, known[name])
			if !ok || err != nil || i >= len(values) || value.Value.String() != values[i] {
				t.Errorf("%s: %s, want %s = %s: %v", bound, row[1], name, known[name], err)
			}
		}
	}
	for bound := range names {
		t.Errorf("nothing is said of the %s", bound)
	}
}

// TestABIManifest asks the decoder which fields it knows.
func TestABIManifest(t *testing.T) {
	atRoot(t)
	const nonsense = "{zz: 1, config: {zz: 1}, requests: [{zz: 1}], limits: {zz: 1}, budgets: {zz: 1}, metrics: [{zz: 1}], examples: [{zz: 1}]}"
	_, err := plugin.ParseManifest("page", []byte(nonsense))
	var want []string
	for _, err := range joined.Errors(err) {
		field, ok := errors.AsType[*plugin.FieldError](err)
		if !ok {
			t.Fatal(err)
		}
		_, names, ok := strings.Cut(field.Err.Error(), "unknown field; known: ")
		if !ok {
			continue
		}
		path := strings.ReplaceAll(strings.TrimSuffix(field.Field, "zz"), "[0]", "[]")
		for name := range strings.SplitSeq(names, ", ") {
			want = append(want, path+name)
		}
	}
	var limits []string
	for _, name := range plugin.LimitNames[:plugin.LimitTotalMemory] {
		limits = append(limits, "limits."+string(name))
	}
	want = slices.DeleteFunc(want, func(name string) bool {
		i := slices.Index(limits, name)
		if i >= 0 {
			limits = slices.Delete(limits, i, i+1)
		}
		return i >= 0 || slices.Contains([]string{"config", "requests", "limits", "budgets", "metrics", "examples"}, name)
	})
	if want = append(want, "limits.*"); len(limits) > 0 {
		t.Errorf("a manifest cannot set %v", limits)
	}
	var got []string
	for _, row := range part(t, "Manifest").tables[0] {
		got = append(got, codes(row[0])...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-decode.go +%s)\n%s", abiFile, diff)
	}
}

// TestABILists holds the page against lists that stand in one place of the code.
func TestABILists(t *testing.T) {
	atRoot(t)
	find := func(file, pattern string) (found []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(source(t, file), -1) {
			found = append(found, m[1])
		}
		if found == nil {
			t.Errorf("%s: nothing is like %s", file, pattern)
		}
		return found
	}
	page := abiPage(t)
	var schemes []string
	for name := range strings.SplitSeq(find("handlers/wasm/internal/egress/dial.go", `unknown scheme; known: ([\w, ]+)`)[0], ", ") {
		schemes = append(schemes, "`"+name+"://")
	}
	for section, wanted := range map[string][]string{
		"DNSRequest":              find("internal/dnswire/question.go", `unknown type .*; known: ([A-Z, ]+)`),
		"DialURL":                 append(find("handlers/wasm/internal/guest/tls.go", `unknown option .*; known: ([\w, ]+)`), schemes...),
		"Conformance":             find("plugin/plugintest/conform.go", `\{"([^"]+)", (?:unnoted\()?g\.`),
		"Capabilities and grants": metadata(find("internal/netaddr/netaddr.go", `MustParsePrefix\("([^"]+)"\), *//`)),
		"Isolation":               {"| `" + string(plugin.Reset) + "`", "| `" + string(plugin.Fresh) + "`", "| `" + string(plugin.Pooled) + "`"},
	} {
		for _, text := range wanted {
			if page[section] == nil || !strings.Contains(page[section].text, text) {
				t.Errorf("%s: want %q", section, text)
			}
		}
	}
	metrics := source(t, "metrics/families.go")
	for _, name := range regexp.MustCompile(`prober_plugin_\w+`).FindAllString(source(t, abiFile), -1) {
		if !strings.Contains(metrics, strconv.Quote(name)) {
			t.Errorf("there is no metric %s", name)
		}
	}
	var told []string
	for _, row := range page["Command mode"].tables[0] {
		for _, name := range codes(row[0]) {
			told = append(told, strings.Replace(name, "PROBE_CONFIG_NAME", "PROBE_CONFIG_", 1))
		}
	}
	vars := find("handlers/wasm/internal/guest/command.go", `"(PROBE_[A-Z_]+)"`)
	slices.Sort(told)
	slices.Sort(vars)
	if diff := cmp.Diff(vars, told); diff != "" {
		t.Errorf("what a command is told: (-command.go +%s)\n%s", abiFile, diff)
	}
}

// metadata returns prefixes as the page has them: one of a single address is that address.
func metadata(prefixes []string) (codes []string) {
	for _, text := range prefixes {
		if p := netip.MustParsePrefix(text); p.IsSingleIP() {
			text = p.Addr().String()
		}
		codes = append(codes, "`"+text+"`")
	}
	return codes
}
