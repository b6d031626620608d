package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// source is the source of an SDK.
type source struct {
	names []string // what it offers
	text  string   // where it writes documents by hand; "" if their fields are typed
}

// check returns an error if a cell is empty or has a name that the source does not have. literal is the name of a
// field that the source must write, "" for none.
func (s *source) check(cell, literal string) error {
	switch {
	case strings.Trim(cell, "- ") == "":
		return fmt.Errorf("the cell is empty: want a name, or a reason after a dash")
	case cell[0] == '-':
		return nil
	case literal != "" && s.text != "" && !strings.Contains(s.text, `"`+literal):
		return fmt.Errorf("the source does not write the field %q", literal)
	}
	for name := range strings.SplitSeq(cell, " ") {
		if !slices.Contains(s.names, name) {
			return fmt.Errorf("the source does not have %s", name)
		}
	}
	return nil
}

// readGo reads the files of the guest: NAME, TYPE.METHOD and TYPE.FIELD.
func readGo(sdk string) (*source, error) {
	s := &source{}
	files, err := filepath.Glob(filepath.Join(sdk, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "native.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			s.addGo(d)
		}
	}
	return s, nil
}

func (s *source) addGo(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			of := d.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			name = fmt.Sprint(of) + "." + name
		}
		s.names = append(s.names, name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			s.names = append(s.names, t.Name.Name)
			if of, ok := t.Type.(*ast.StructType); ok {
				for _, field := range of.Fields.List {
					for _, name := range field.Names {
						s.names = append(s.names, t.Name.Name+"."+name.Name)
					}
				}
			}
		}
	}
}

// scan reads the files of a pattern line by line. add is called with the name of the file without its suffix.
func scan(pattern string, s *source, add func(file, line string)) (*source, error) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s: no such file: %w", pattern, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s.text += strings.ReplaceAll(string(text), `\"`, `"`)
		for line := range strings.Lines(string(text)) {
			add(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), strings.TrimRight(line, "\n"))
		}
	}
	return s, nil
}

var (
	rustType   = regexp.MustCompile(`^(?:pub struct|pub enum|impl(?: \w+ for)?) (\w+)`)
	rustFunc   = regexp.MustCompile(`^( *)pub fn (\w+)`)
	rustMethod = regexp.MustCompile(`^    fn (read|write)\(`)
	rustField  = regexp.MustCompile(`^    pub (\w+):`)
	rustUse    = regexp.MustCompile(`^pub use .*::\{?([\w, ]+)\}?;`)
)

// readRust reads MODULE::FUNCTION, MODULE::TYPE, MODULE::TYPE::METHOD and MODULE::TYPE.FIELD. The items of lib.rs
// have no module.
func readRust(sdk string) (*source, error) {
	s, typ := &source{}, ""
	return scan(filepath.Join(sdk, "rust/src/*.rs"), s, func(file, line string) {
		module := file + "::"
		if file == "lib" {
			module = ""
		}
		if m := rustType.FindStringSubmatch(line); m != nil {
			typ = module + m[1]
			s.names = append(s.names, typ)
		}
		if m := rustFunc.FindStringSubmatch(line); m != nil && m[1] == "" {
			s.names = append(s.names, module+m[2])
		} else if m != nil {
			s.names = append(s.names, typ+"::"+m[2])
		}
		if m := rustMethod.FindStringSubmatch(line); m != nil { // of the traits Read and Write
			s.names = append(s.names, typ+"::"+m[1])
		}
		if m := rustField.FindStringSubmatch(line); m != nil {
			s.names = append(s.names, typ+"."+m[1])
		}
		if m := rustUse.FindStringSubmatch(line); m != nil {
			for name := range strings.SplitSeq(m[1], ", ") {
				s.names = append(s.names, module+name)
			}
		}
	})
}

var (
	cFunc  = regexp.MustCompile(`^(?:PROBER_FUNC.*?|PROBER_RESULT\()(prober_\w+)[(,]`)
	cField = regexp.MustCompile(`^\t[^()*]*?\*?(?:const )?\*?(\w+);`)
	cEnd   = regexp.MustCompile(`^} (\w+);`)
)

// readC reads FUNCTION, and TYPE.FIELD without prober_.
func readC(sdk string) (*source, error) {
	s := &source{}
	var fields []string
	return scan(filepath.Join(sdk, "c/prober.h"), s, func(_, line string) {
		if m := cFunc.FindStringSubmatch(line); m != nil {
			s.names = append(s.names, m[1])
		}
		if strings.HasPrefix(line, "typedef struct {") {
			fields = nil
		}
		if m := cField.FindStringSubmatch(line); m != nil {
			fields = append(fields, m[1])
		}
		if m := cEnd.FindStringSubmatch(line); m != nil {
			for _, field := range fields {
				s.names = append(s.names, m[1]+"."+field)
			}
		}
	})
}

var (
	tsTop    = regexp.MustCompile(`^export (function|class) (\w+)`)
	tsMember = regexp.MustCompile(`^  (?:readonly |get )?(\w+)(?:\(|: |\??;)`)
)

// readAssemblyScript reads FUNCTION, CLASS and CLASS.MEMBER, of the files that index.ts exports.
func readAssemblyScript(sdk string) (*source, error) {
	s, class := &source{}, ""
	return scan(filepath.Join(sdk, "assemblyscript/*.ts"), s, func(file, line string) {
		if file == "host" {
			return
		}
		if m := tsTop.FindStringSubmatch(line); m != nil {
			s.names = append(s.names, m[2])
			if class = ""; m[1] == "class" {
				class = m[2]
			}
		}
		if strings.HasPrefix(line, "}") {
			class = ""
		}
		if m := tsMember.FindStringSubmatch(line); m != nil && class != "" {
			s.names = append(s.names, class+"."+m[1])
		}
	})
}
