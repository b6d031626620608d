package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
)

// comments has the comments of types by name, and of fields by TYPE.FIELD.
type comments map[string]string

// readComments reads the comments of the exported types in dir.
func readComments(dir string) (comments, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s: %w", dir, os.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	c := make(comments)
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				return true
			}
			for _, spec := range d.Specs {
				c.add(d, spec.(*ast.TypeSpec))
			}
			return false
		})
	}
	return c, nil
}

func (c comments) add(d *ast.GenDecl, t *ast.TypeSpec) {
	c[t.Name.Name] = text(d.Doc)
	fields, ok := t.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range fields.Fields.List {
		for _, name := range f.Names {
			c[t.Name.Name+"."+name.Name] = strings.TrimSpace(text(f.Doc) + " " + text(f.Comment))
		}
	}
}

// text returns a comment as one line.
func text(group *ast.CommentGroup) string { return strings.Join(strings.Fields(group.Text()), " ") }

// schemas describes Go types as JSON Schema.
type schemas struct {
	comments   comments
	components object // by the name of the type
	err        error
}

// enums has the values of fields with a fixed set of values.
var enums = map[string][]string{
	"ProbeStatus.Kind":              {"liveness", "readiness", "startup"},
	"ProbeStatus.Result":            {"success", "failure", "unknown"},
	"TickStatus.Result":             {"success", "warning", "failure", "unknown"},
	"PluginStatus.State":            {"running", "unused", "withdrawn", "failed"},
	"PluginStatus.Runtime":          {"wasm", "process", "nagios"},
	"Status.Kind":                   {"Status"},
	"Certificate.Verification":      {api.Verified, api.NotVerified, api.NotChecked},
	"CertificateProbe.Verification": {api.Verified, api.NotVerified, api.NotChecked},
	"CertificateProbe.Kind":         {"liveness", "readiness", "startup"},
	"Status.APIVersion":             {"v1"},
	"Status.Status":                 {"Failure"},
}

// typeSchema returns the schema of t.
func (s *schemas) typeSchema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{"type": "object"}
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Uint64:
		return object{"type": "integer", "format": "int64", "minimum": 0}
	case reflect.Float64:
		return object{"type": "number", "format": "double"}
	case reflect.Slice:
		return object{"type": "array", "items": s.typeSchema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.typeSchema(t.Elem())}
	case reflect.Pointer:
		return s.typeSchema(t.Elem())
	case reflect.Struct:
		return s.component(t)
	default:
		s.err = fmt.Errorf("%v has no schema", t)
		return nil
	}
}

// component adds the schema of a struct to the components, and returns a reference to it.
func (s *schemas) component(t reflect.Type) object {
	ref := object{"$ref": "#/components/schemas/" + t.Name()}
	if _, known := s.components[t.Name()]; known {
		return ref
	}
	properties, required := make(object), []string{}
	schema := object{"type": "object", "description": s.comments[t.Name()], "properties": properties}
	s.components[t.Name()] = schema
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue
		}
		owner := t
		if len(f.Index) > 1 {
			owner = t.FieldByIndex(f.Index[:len(f.Index)-1]).Type
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		properties[name] = s.field(owner.Name()+"."+f.Name, f.Type, options)
		if options == "" {
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		slices.Sort(required)
		schema["required"] = required
	}
	return ref
}

// field returns the schema of a field of a struct. options are the options of its JSON tag.
func (s *schemas) field(name string, t reflect.Type, options string) object {
	schema := s.typeSchema(t)
	if t.Kind() == reflect.Pointer && options == "" {
		schema = object{"anyOf": []any{schema, object{"type": "null"}}}
	}
	if values := enums[name]; values != nil {
		schema["enum"] = values
	}
	about := s.comments[name]
	if before, why, ok := strings.Cut(about, "Deprecated:"); ok {
		schema["deprecated"], about = true, strings.TrimSpace(before)+" Deprecated:"+why
	}
	if about != "" {
		schema["description"] = about
	}
	return schema
}
