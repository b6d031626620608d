package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
)

// write writes the file source without the declarations and imports to the path to, and returns to.
func (r replacements) write(source, to string) (string, error) {
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	text, err = r.cut(text)
	if err != nil {
		return "", err
	}
	return to, os.WriteFile(to, text, 0o600)
}

// cut returns a file without the declarations and imports. All of them must be in it.
func (r replacements) cut(text []byte) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	cuts := make(map[string]ast.Node)
	for _, d := range file.Decls {
		cuts[nameOf(d)] = d
	}
	for _, i := range file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		cuts["import "+path] = i
	}
	names := slices.Clone(r.declarations)
	for _, path := range r.imports {
		names = append(names, "import "+path)
	}
	var nodes []ast.Node
	for _, name := range names {
		node, ok := cuts[name]
		if !ok {
			return nil, fmt.Errorf("no %s", name)
		}
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b ast.Node) int { return int(b.Pos() - a.Pos()) }) // the last one first
	for _, node := range nodes {
		text = slices.Delete(text, files.Position(node.Pos()).Offset, files.Position(node.End()).Offset)
	}
	return text, nil
}

// nameOf returns the name of a function, "Type.method" of a method, or the name of a type declared alone; ""
// for other declarations.
func nameOf(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		if name, ok := receiver.(*ast.Ident); ok {
			return name.Name + "." + d.Name.Name
		}
	case *ast.GenDecl:
		if spec, ok := d.Specs[0].(*ast.TypeSpec); ok && len(d.Specs) == 1 {
			return spec.Name.Name
		}
	}
	return ""
}
