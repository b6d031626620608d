package local

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxNodes = 200_000 // YAML nodes in one document, with aliases counted each time
	maxDepth = 100
)

// decoder turns YAML nodes into what a Go type takes, and notes what it does not:
// unknown fields, fields given twice, values of another kind.
type decoder struct {
	nodes  int
	report func(line int, path *field.Path, message string)
}

// decode fills in into, a pointer, from n. It reports false when it has reported a
// problem.
func (d *decoder) decode(n *yaml.Node, path *field.Path, into any) bool {
	ok, report := true, d.report
	d.report = func(line int, path *field.Path, message string) {
		ok = false
		report(line, path, message)
	}
	defer func() { d.report = report }()
	value := d.value(n, reflect.TypeOf(into).Elem(), path, 0)
	if !ok {
		return false
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		d.report(n.Line, path, strings.TrimPrefix(err.Error(), "json: "))
	}
	return ok
}

// value returns n as JSON has it, for a Go value of type t; nil where n is null or
// wrong.
func (d *decoder) value(n *yaml.Node, t reflect.Type, path *field.Path, depth int) any {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.nodes++; d.nodes > maxNodes || depth > maxDepth {
		if d.nodes <= maxNodes+1 || depth == maxDepth+1 {
			d.report(n.Line, path, "too big or too deep")
		}
		return nil
	}
	if n.Tag == "!!null" {
		return nil
	}
	if t.Kind() == reflect.Pointer {
		return d.value(n, t.Elem(), path, depth)
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return d.custom(n, t, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return d.object(n, path, depth, jsonFields(t))
	case reflect.Map:
		return d.object(n, path, depth, func(string) (reflect.Type, bool) { return t.Elem(), true })
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return d.scalar(n, reflect.TypeFor[string](), path)
		}
		return d.list(n, t.Elem(), path, depth)
	default:
		return d.scalar(n, t, path)
	}
}

// object reads a mapping whose fields have the types that typeOf knows.
func (d *decoder) object(n *yaml.Node, path *field.Path, depth int, typeOf func(name string) (reflect.Type, bool)) any {
	if n.Kind != yaml.MappingNode {
		d.report(n.Line, path, "must be a map, not "+kindOf(n))
		return nil
	}
	object, seen := make(map[string]any), make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := childPath(path, key.Value)
		t, known := typeOf(key.Value)
		switch {
		case key.Kind != yaml.ScalarNode:
			d.report(key.Line, path, "a field's name must be a string")
		case key.Tag == "!!merge":
			d.report(key.Line, path, "merge keys (<<) are not supported")
		case seen[key.Value]:
			d.report(key.Line, at, "given twice")
		case !known:
			d.report(key.Line, at, "unknown field")
		default:
			if v := d.value(value, t, at, depth+1); v != nil {
				object[key.Value] = v
			}
		}
		seen[key.Value] = true
	}
	return object
}

func (d *decoder) list(n *yaml.Node, elem reflect.Type, path *field.Path, depth int) any {
	if n.Kind != yaml.SequenceNode {
		d.report(n.Line, path, "must be a list, not "+kindOf(n))
		return nil
	}
	list := make([]any, 0, len(n.Content))
	for i, item := range n.Content {
		list = append(list, d.value(item, elem, path.Index(i), depth+1))
	}
	return list
}

// custom reads a type with a JSON form of its own: a port, a quantity, a time.
func (d *decoder) custom(n *yaml.Node, t reflect.Type, path *field.Path) any {
	if n.Kind != yaml.ScalarNode {
		d.report(n.Line, path, "must be one value, not "+kindOf(n))
		return nil
	}
	var v any = n.Value
	if n.Tag == "!!int" {
		var number int64
		if err := n.Decode(&number); err != nil {
			d.report(n.Line, path, "must be a smaller number")
			return nil
		}
		v = number
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err != nil {
		d.report(n.Line, path, strings.TrimPrefix(err.Error(), "json: "))
		return nil
	}
	return v
}

func (d *decoder) scalar(n *yaml.Node, t reflect.Type, path *field.Path) any {
	wanted, v := "a string", reflect.New(t)
	ok := n.Kind == yaml.ScalarNode
	switch t.Kind() {
	case reflect.String:
		ok = ok && (n.Tag == "!!str" || n.Tag == "!!timestamp")
		if ok {
			return n.Value
		}
	case reflect.Bool:
		wanted = "true or false"
		ok = ok && n.Tag == "!!bool"
	case reflect.Float32, reflect.Float64:
		wanted = "a number"
		ok = ok && (n.Tag == "!!int" || n.Tag == "!!float")
	default:
		wanted = "an integer"
		ok = ok && n.Tag == "!!int"
	}
	if !ok {
		d.report(n.Line, path, "must be "+wanted+", not "+kindOf(n))
		return nil
	}
	if err := n.Decode(v.Interface()); err != nil {
		d.report(n.Line, path, n.Value+" is out of range")
		return nil
	}
	return v.Elem().Interface()
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!str":
		return "a string"
	case "!!bool":
		return "a boolean"
	case "!!int", "!!float":
		return "a number"
	default:
		return "a " + cmp.Or(strings.TrimLeft(n.Tag, "!"), "scalar")
	}
}

// jsonFields returns the types of t's fields by their names in JSON.
func jsonFields(t reflect.Type) func(name string) (reflect.Type, bool) {
	return func(name string) (reflect.Type, bool) {
		for f := range t.Fields() {
			tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && (tag == "" || slices.Contains(strings.Split(options, ","), "inline")) {
				if found, ok := jsonFields(f.Type)(name); ok {
					return found, true
				}
				continue
			}
			if tag == name && tag != "" && tag != "-" {
				return f.Type, true
			}
		}
		return nil, false
	}
}

// childPath extends path by a field, in brackets where its name would not read as one.
func childPath(path *field.Path, name string) *field.Path {
	if strings.ContainsAny(name, "./[] ") && path != nil {
		return path.Key(name)
	}
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}

// locate returns the line of the field at path below n, or of the nearest field that
// is there. It looks into the YAML inside of an annotation too.
func locate(n *yaml.Node, path string) int {
	line := n.Line
	for path != "" {
		var step string
		step, path = cutStep(path)
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n.Kind == yaml.ScalarNode {
			if n = inside(n); n == nil {
				return line
			}
		}
		next, at := child(n, step)
		if next == nil {
			return line
		}
		n, line = next, at
	}
	return line
}

// cutStep splits the first step off a path like a.b[0][k.x].c.
func cutStep(path string) (step, rest string) {
	if inner, ok := strings.CutPrefix(path, "["); ok {
		step, rest, _ = strings.Cut(inner, "]")
	} else if i := strings.IndexAny(path, ".["); i >= 0 {
		step, rest = path[:i], path[i:]
	} else {
		step = path
	}
	return step, strings.TrimPrefix(rest, ".")
}

// child returns what n has at step, and the line where it begins.
func child(n *yaml.Node, step string) (next *yaml.Node, line int) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1], n.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		for i := range n.Content {
			if fmt.Sprint(i) == step {
				return n.Content[i], n.Content[i].Line
			}
		}
	}
	return nil, 0
}

// inside parses the YAML that the text of n is, with its lines counted in the file.
func inside(n *yaml.Node) *yaml.Node {
	var inner yaml.Node
	if n.Tag != "!!str" || yaml.Unmarshal([]byte(n.Value), &inner) != nil || len(inner.Content) == 0 {
		return nil
	}
	offset := n.Line - 1
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		offset = n.Line
	}
	shift(inner.Content[0], offset)
	return inner.Content[0]
}

func shift(n *yaml.Node, lines int) {
	n.Line += lines
	for _, c := range n.Content {
		shift(c, lines)
	}
}
