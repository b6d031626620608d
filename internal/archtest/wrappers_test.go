package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/archtest"
)

// A wrapper that is neither a Wrapper nor implements what its probes may have would hide the target and the
// secrets of the handler inside.
func TestWrappersOfHandlersUnwrap(t *testing.T) {
	atRoot(t)
	found := make(map[string]token.Position) // of struct types with a handler inside, by folder and name
	methods := make(map[string]map[string]bool)
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(file, d)
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if of, ok := n.Type.(*ast.StructType); ok && hasHandler(of) {
					found[packageOf(file)+"."+n.Name.Name] = fset.Position(n.Pos())
				}
			case *ast.FuncDecl:
				if of, isMethod := strings.CutSuffix(archtest.Receiver(n), "."); isMethod {
					name := packageOf(file) + "." + of
					if methods[name] == nil {
						methods[name] = make(map[string]bool)
					}
					methods[name][n.Name.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	unwrap := 0
	for name, place := range found {
		switch has := methods[name]; {
		case has["Unwrap"]:
			unwrap++
		case has["Probe"] && !has["Prepare"]: // a Preparer prepares its probes
			t.Errorf("%s: %s probes with a handler inside, and has no Unwrap: see probe.Wrapper", place, name)
		}
	}
	if unwrap < 7 {
		t.Errorf("%d types with Unwrap", unwrap)
	}
}

// hasHandler reports whether a field is a probe.Handler.
func hasHandler(of *ast.StructType) bool {
	for _, field := range of.Fields.List {
		if s, ok := field.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Handler" {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "probe" {
				return true
			}
		}
	}
	return false
}
