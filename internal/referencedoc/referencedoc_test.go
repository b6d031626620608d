package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
)

func TestPagesAreCurrent(t *testing.T) {
	for file, page := range pages {
		want, err := page()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("../../docs", file))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("docs/%s is not current: run `make docs` (-want +got)\n%s", file, diff)
		}
	}
}

func TestResourcesAreCurrent(t *testing.T) {
	want, err := crds()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("../../docs", crdsFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not current: run `make docs` (-want +got)\n%s", crdsFile, diff)
	}
}

// TestSectionsListTheirPages compares the lists in the indexes of sections with the front matter of the pages.
func TestSectionsListTheirPages(t *testing.T) {
	indexes, err := sections("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for file, want := range indexes {
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is not current: run `make docs` (-want +got)\n%s", file, diff)
		}
		pages += strings.Count(want, "\n- [")
	}
	if len(indexes) < 10 || pages < 100 {
		t.Errorf("%d sections have %d pages, want at least 10 and 100", len(indexes), pages)
	}
}

// knownFields returns the fields that config knows in a mapping of prober.yaml, as the error of an unknown field
// lists them. The mapping is in the place of MAPPING. There are none if a mapping is not allowed there.
func knownFields(nested string) []string {
	text := "apiVersion: prober.dev/v1\nkind: AgentConfig\n" + strings.Replace(nested, "MAPPING", "{no_such: 1}", 1)
	_, err := config.Parse("prober.yaml", []byte(text))
	_, known, ok := strings.Cut(fmt.Sprint(err), "no_such: unknown field; known: ")
	if !ok {
		return nil
	}
	known, _, _ = strings.Cut(known, "\n")
	known, _, _ = strings.Cut(known, " (")
	return strings.Split(known, ", ")
}

// TestProberYAMLHasEveryField compares the rows with the fields that package config reads, in both directions.
func TestProberYAMLHasEveryField(t *testing.T) {
	var known []string
	var walk func(prefix, nested string, fields []string)
	walk = func(prefix, nested string, fields []string) {
		for _, field := range fields {
			name := prefix + field
			mapping := strings.Replace(nested, "MAPPING", "{"+field+": MAPPING}", 1)
			list := strings.Replace(nested, "MAPPING", "{"+field+": [MAPPING]}", 1)
			if prefix == "" {
				mapping, list = field+": MAPPING", field+": [MAPPING]"
			}
			inMapping, inList := knownFields(mapping), knownFields(list)
			switch {
			case name == "apiVersion" || name == "kind":
				continue
			case inList != nil:
				walk(name+"[].", list, inList)
				continue
			case inMapping != nil && name != "plugins[].limits": // docs/abi.md has those
				walk(name+".", mapping, inMapping)
				if prefix == "" {
					continue
				}
			}
			known = append(known, name)
		}
	}
	walk("", "", knownFields("no_such: 1"))
	var described []string
	for _, s := range proberYAML {
		for _, f := range s.fields {
			described = append(described, f.path)
			if f.path != s.key && !regexp.MustCompile(`^`+s.key+`(\[\])?\.`).MatchString(f.path) {
				t.Errorf("%s is in the section %s", f.path, s.key)
			}
		}
	}
	slices.Sort(known)
	slices.Sort(described)
	if diff := cmp.Diff(known, described); diff != "" || len(known) < 100 {
		t.Errorf("%d fields (-known +described)\n%s", len(known), diff)
	}
}

// tags returns the JSON names of the fields of a struct in core/declared. A field of the kind struct has the names
// of its own fields, after a point.
func tags(t *testing.T, structs map[string]*ast.StructType, name, prefix string) (names []string) {
	t.Helper()
	for _, f := range structs[name].Fields.List {
		typ := ""
		switch x := f.Type.(type) {
		case *ast.Ident:
			typ = x.Name
		case *ast.StarExpr:
			if ident, ok := x.X.(*ast.Ident); ok {
				typ = ident.Name
			}
		}
		path := prefix
		if f.Tag != nil {
			tag, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			path += tag
		}
		switch {
		case structs[typ] == nil:
			names = append(names, path)
		case f.Tag == nil: // embedded
			names = append(names, tags(t, structs, typ, prefix)...)
		default:
			names = append(names, tags(t, structs, typ, path+".")...)
		}
	}
	return names
}

// TestAnnotationHasEveryField compares the rows with the fields of the parser of the annotation.
func TestAnnotationHasEveryField(t *testing.T) {
	structs := make(map[string]*ast.StructType)
	for _, name := range []string{"annotation.go", "checks.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), "../../core/declared/"+name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	want := tags(t, structs, "annotationProbe", "")
	for _, b := range declared.Builtins() {
		want = append(want, b.Field)
	}
	var got []string
	for _, f := range probeFields {
		got = append(got, f.path)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-parser +page\n%s", diff)
	}
}

// TestAnnotationNamesFieldsOfBuiltins checks that the rows of built-in handlers name the fields of their configs.
func TestAnnotationNamesFieldsOfBuiltins(t *testing.T) {
	for path, typ := range map[string]reflect.Type{
		"httpGet": reflect.TypeFor[v1.HTTPGetAction](), "tcpSocket": reflect.TypeFor[v1.TCPSocketAction](), "grpc": reflect.TypeFor[v1.GRPCAction](), "exec": reflect.TypeFor[v1.ExecAction](),
	} {
		i := slices.IndexFunc(probeFields, func(f field) bool { return f.path == path })
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !strings.Contains(probeFields[i].text, "`"+name+"`") && name != "protocol" && name != "mode" { // fields of Kubernetes 1.37 that prober ignores
				t.Errorf("the row of %s does not name %s", path, name)
			}
		}
	}
}

// TestAnnotationsAreThoseOfTheCode finds the annotations of pods that the code reads.
func TestAnnotationsAreThoseOfTheCode(t *testing.T) {
	listed := make(map[string]bool)
	for _, a := range annotations {
		listed[a.name] = true
	}
	for name, file := range map[string]string{
		"prober.dev/address": "pods/local/manifest", "prober.dev/umask": "pods/local", "prober.dev/liveness": "pods/kube", "prober.dev/conditions": "pods/kube",
		"prober.dev/network": "pods/kube", "prober.dev/on-agent-loss": "pods/kube",
	} {
		if !listed[name] {
			t.Errorf("%s is not on the page", name)
		}
		delete(listed, name)
		found := false
		err := filepath.WalkDir(filepath.Join("../..", file), func(path string, d os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				text, readErr := os.ReadFile(path)
				found, err = found || strings.Contains(string(text), `"`+name+`"`), readErr
			}
			return err
		})
		if err != nil || !found {
			t.Errorf("%s does not read %s: %v", file, name, err)
		}
	}
	for name := range listed {
		t.Errorf("the page has %s, which nothing reads", name)
	}
}
