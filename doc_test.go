package prober_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocNamesExist resolves the functions that doc.go names in its lists of steps.
func TestDocNamesExist(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, steps, found := strings.Cut(string(text), "// # One tick")
	if !found {
		t.Fatal("doc.go has no section about one tick")
	}
	names := regexp.MustCompile(`\b([a-z]+(?:/[a-z]+)*)\.((?:[A-Za-z]+\.)?[A-Za-z]+)\b`).FindAllStringSubmatch(steps, -1)
	known := 0
	for _, m := range names {
		dir, name := m[1], m[2]
		if strings.HasSuffix(m[0], ".yaml") {
			continue
		}
		known++
		if !functions(t, dir)[name] {
			t.Errorf("doc.go names %s.%s, which does not exist", dir, name)
		}
	}
	if known < 18 {
		t.Errorf("doc.go names %d functions, expected at least 18", known)
	}
}

// functions returns the functions of the package in dir as "name", and its methods as
// "Type.name".
func functions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				all[receiver(f)+f.Name.Name] = true
			}
		}
	}
	return all
}

// receiver returns "Type." for a method, and "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	switch typ := f.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		if ident, ok := typ.X.(*ast.Ident); ok {
			return ident.Name + "."
		}
	case *ast.Ident:
		return typ.Name + "."
	}
	return ""
}
