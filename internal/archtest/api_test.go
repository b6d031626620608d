package archtest_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/doc"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update-api", false, "rewrite the listings in api")

// stablePackages returns the packages that docs/versioning.md calls stable.
func stablePackages(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("docs/versioning.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| Go packages ([^|]*) \|`).FindSubmatch(text)
	if row == nil {
		t.Fatal("docs/versioning.md has no row of Go packages")
	}
	for _, name := range regexp.MustCompile("`([^`]+)`").FindAllSubmatch(row[1], -1) {
		names = append(names, string(name[1]))
	}
	return names
}

// loadPackages type-checks packages of this module from the compiler's export data.
func loadPackages(t *testing.T, names []string) (all []*types.Package) {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, name := range names {
		args = append(args, "./"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0") // one listing for all systems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[name] = file
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) { return os.Open(files[name]) })
	for _, name := range names {
		p, err := imports.Import(path.Join(module, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// The listings in api are what stable packages export: a line for each constant, variable, function, method and
// field. A change of one is seen in the change that makes it.
func TestAPIListing(t *testing.T) {
	atRoot(t)
	names := stablePackages(t)
	packages := loadPackages(t, names)
	kept := make(map[string]bool)
	for i, p := range packages {
		file := "api/" + strings.ReplaceAll(names[i], "/", "-") + ".txt"
		kept[path.Base(file)] = true
		want := []byte(strings.Join(listing(p), "\n") + "\n")
		if *updateAPI {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what package %s exports: run go test ./internal/archtest -run API -update-api, and look at what has changed\n%s", file, names[i], changedLines(string(got), string(want)))
		}
	}
	entries, err := os.ReadDir("api")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !kept[e.Name()] {
			t.Errorf("api/%s is of no stable package", e.Name())
		}
	}
}

func changedLines(was, is string) string {
	before, after := strings.Split(was, "\n"), strings.Split(is, "\n")
	var out []string
	for _, line := range before {
		if !slices.Contains(after, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}

// foreign are the other modules whose types stable packages may show: those that an embedder has anyway.
var foreign = []string{"k8s.io/api", "k8s.io/apimachinery", "github.com/tetratelabs/wazero"}

// A stable package shows no type of an experimental or internal one: it would be as stable as that. One that a stable
// package exports by an alias is part of its own API, and of the listing.
func TestStableSignaturesNameStableTypes(t *testing.T) {
	atRoot(t)
	names := stablePackages(t)
	stable := make(map[string]bool)
	for _, name := range names {
		stable[path.Join(module, name)] = true
	}
	packages := loadPackages(t, names)
	published := make(map[*types.TypeName]bool)
	for _, p := range packages {
		for _, name := range p.Scope().Names() {
			if of := aliased(p.Scope().Lookup(name)); of != nil {
				published[of] = true
			}
		}
	}
	allowed := func(p *types.Package) bool {
		if p == nil || stable[p.Path()] || !strings.Contains(strings.Split(p.Path(), "/")[0], ".") {
			return true
		}
		return slices.ContainsFunc(foreign, func(m string) bool { return p.Path() == m || strings.HasPrefix(p.Path(), m+"/") })
	}
	for i, p := range packages {
		for _, name := range p.Scope().Names() {
			object := p.Scope().Lookup(name)
			if !object.Exported() {
				continue
			}
			for _, shown := range namesIn(object) {
				if !published[shown] && !allowed(shown.Pkg()) {
					t.Errorf("%s.%s shows %s.%s", names[i], name, shown.Pkg().Path(), shown.Name())
				}
			}
		}
	}
}

// aliased returns the type for which an exported object is an alias; nil for any other object.
func aliased(object types.Object) *types.TypeName {
	if !object.Exported() {
		return nil
	}
	if alias, ok := object.Type().(*types.Alias); ok && alias.Obj() == object {
		if named, ok := types.Unalias(alias).(*types.Named); ok {
			return named.Obj()
		}
	}
	return nil
}

// namesIn returns the named types that users of an exported object see: in its type, its exported fields and its
// exported methods.
func namesIn(object types.Object) (all []*types.TypeName) {
	seen := make(map[types.Type]bool)
	var walk func(t types.Type)
	walk = func(t types.Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			all = append(all, t.Obj())
			walk(types.Unalias(t))
		case *types.Named:
			all = append(all, t.Obj())
			for a := range t.TypeArgs().Types() {
				walk(a)
			}
			if t.Obj().Pkg() != object.Pkg() && t.Obj() != aliased(object) {
				return // it is judged where it is declared
			}
			for m := range t.Methods() {
				if m.Exported() {
					walk(m.Signature())
				}
			}
			walk(t.Underlying())
		case *types.Pointer:
			walk(t.Elem())
		case *types.Slice:
			walk(t.Elem())
		case *types.Array:
			walk(t.Elem())
		case *types.Chan:
			walk(t.Elem())
		case *types.Map:
			walk(t.Key())
			walk(t.Elem())
		case *types.Tuple:
			for v := range t.Variables() {
				walk(v.Type())
			}
		case *types.Signature:
			walk(t.Params())
			walk(t.Results())
		case *types.Struct:
			for f := range t.Fields() {
				if f.Exported() {
					walk(f.Type())
				}
			}
		case *types.Interface:
			for m := range t.Methods() {
				if m.Exported() {
					walk(m.Signature())
				}
			}
		}
	}
	if name, ok := object.(*types.TypeName); ok {
		if alias, ok := name.Type().(*types.Alias); ok {
			walk(types.Unalias(alias))
			return all
		}
	}
	walk(object.Type())
	return all
}

// listing returns a sorted line for everything that p exports.
func listing(p *types.Package) (lines []string) {
	qualify := func(o *types.Package) string {
		if o == p {
			return ""
		}
		return strings.TrimPrefix(o.Path(), module+"/")
	}
	text := func(t types.Type) string { return types.TypeString(t, qualify) }
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch o := object.(type) {
		case *types.Const:
			add("const %s %s = %s", name, text(o.Type()), o.Val().ExactString())
		case *types.Var:
			add("var %s %s", name, text(o.Type()))
		case *types.Func:
			add("func %s%s", name, strings.TrimPrefix(text(o.Type()), "func"))
		case *types.TypeName:
			addType(add, text, o)
		}
	}
	slices.Sort(lines)
	return lines
}

// addType adds the lines of a type.
func addType(add func(string, ...any), text func(types.Type) string, o *types.TypeName) {
	name := text(types.Unalias(o.Type()))
	if a, ok := o.Type().(*types.Alias); ok {
		add("type %s = %s", o.Name(), text(a.Rhs()))
		if !strings.Contains(name, "internal/") { // it is listed where it is declared
			return
		}
		name = o.Name()
	}
	named, ok := types.Unalias(o.Type()).(*types.Named)
	if !ok {
		return
	}
	of := "type " + name
	switch u := named.Underlying().(type) {
	case *types.Struct:
		add("%s struct", of)
		for f := range u.Fields() {
			switch {
			case f.Embedded() && f.Exported():
				add("%s struct, embedded %s", of, text(f.Type()))
			case f.Exported():
				add("%s struct, %s %s", of, f.Name(), text(f.Type()))
			}
		}
	case *types.Interface:
		add("%s interface", of)
		for m := range u.Methods() {
			if m.Exported() {
				add("%s interface, %s%s", of, m.Name(), strings.TrimPrefix(text(m.Type()), "func"))
			}
		}
	default:
		add("%s %s", of, text(u))
	}
	for _, receiver := range []types.Type{named, types.NewPointer(named)} {
		methods := types.NewMethodSet(receiver)
		for method := range methods.Methods() {
			m := method.Obj()
			_, byPointer := receiver.(*types.Pointer)
			inValue := types.NewMethodSet(named).Lookup(m.Pkg(), m.Name()) != nil
			if m.Exported() && !types.IsInterface(named) && byPointer != inValue {
				star := ""
				if byPointer {
					star = "*"
				}
				add("method (%s%s) %s%s", star, name, m.Name(), strings.TrimPrefix(text(m.Type()), "func"))
			}
		}
	}
}

// An agent needs stable packages alone: the examples are agents with pods, without, and with many endpoints.
func TestExampleAgentsImportStablePackages(t *testing.T) {
	atRoot(t)
	names := stablePackages(t)
	files, err := filepath.Glob("examples/embed/*.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("examples/embed/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat(files, more) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if ours, ok := strings.CutPrefix(name, module+"/"); ok && !slices.Contains(names, ours) {
				t.Errorf("%s imports %s, which is not stable", file, ours)
			}
		}
	}
	if len(more) < 3 {
		t.Errorf("%d files of agents", len(more))
	}
}

// Every stable package has an example, which documentation shows beside its names.
func TestStablePackagesHaveExamples(t *testing.T) {
	atRoot(t)
	for _, name := range stablePackages(t) {
		files, err := filepath.Glob(filepath.Join(name, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(file string) bool { return hasExample(t, file) }) {
			t.Errorf("package %s has no function Example… in a file of package %s_test", name, path.Base(name))
		}
	}
}

// hasExample reports whether file has an example, as package go/doc finds them, from outside of its package.
func hasExample(t *testing.T, file string) bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return strings.HasSuffix(parsed.Name.Name, "_test") && len(doc.Examples(parsed)) > 0
}

// docs/embed/callbacks.md has a row for each function that a program may give to the core: the methods of its
// interfaces and of handlers, and the fields of its configs.
func TestCallbacksAreListed(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("docs/embed/callbacks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n# What prober calls\n")
	table, _, _ = strings.Cut(table, "\n#")
	listed := make(map[string]bool)
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*) \|`).FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`(?:[a-z]+\\.)?([A-Z][A-Za-z]*\\.[A-Z][A-Za-z]*)`").FindAllStringSubmatch(row[1], -1) {
			listed[name[1]] = true
		}
	}
	count := 0
	for _, p := range loadPackages(t, []string{"probe", "core/group", "core/manager", "core/worker"}) {
		for _, name := range p.Scope().Names() {
			for _, callback := range callbacksOf(p.Scope().Lookup(name)) {
				if count++; !listed[callback] {
					t.Errorf("%s.%s is not in the table of docs/embed/callbacks.md", p.Name(), callback)
				}
			}
		}
	}
	if count < 25 {
		t.Errorf("%d callbacks were found, expected at least 25", count)
	}
}

// callbacksOf returns the methods of an exported interface, and the fields of a Config that are functions.
func callbacksOf(object types.Object) (names []string) {
	if _, isType := object.(*types.TypeName); !isType || !object.Exported() {
		return nil
	}
	switch of := object.Type().Underlying().(type) {
	case *types.Interface:
		for m := range of.ExplicitMethods() {
			names = append(names, object.Name()+"."+m.Name())
		}
	case *types.Struct:
		for f := range of.Fields() {
			if _, isFunc := f.Type().Underlying().(*types.Signature); isFunc && object.Name() == "Config" {
				names = append(names, object.Name()+"."+f.Name())
			}
		}
	}
	return names
}
