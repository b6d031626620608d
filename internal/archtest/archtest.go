// Package archtest checks the structure of the module: which package may import which, and what the stable packages
// export. Its tests run from the root of the module.
package archtest

import "go/ast"

// Receiver returns "Type." for a method, and "" for a function.
func Receiver(f *ast.FuncDecl) string {
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
