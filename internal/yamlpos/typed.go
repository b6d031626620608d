package yamlpos

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Into sets into, a pointer to a Go type with JSON tags, to the value n at path. Unknown fields and values of another
// type are errors. It reports whether there was no error.
func (d *Decoder) Into(n *Node, path string, into any) bool {
	before := len(d.errs)
	value := d.typed(n, reflect.TypeOf(into).Elem(), path)
	if len(d.errs) > before {
		return false
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		d.Errorf(n, path, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return err == nil
}

// typed returns n as encoding/json would decode it for type t; nil if n is null or invalid.
func (d *Decoder) typed(n *Node, t reflect.Type, path string) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Tag == "!!null":
		return nil
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return d.custom(n, t, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		fields := fieldsOf(t)
		return d.object(n, path, func(name string) (reflect.Type, bool) {
			t, ok := fields[name]
			return t, ok
		}, fields)
	case reflect.Map:
		return d.object(n, path, func(string) (reflect.Type, bool) { return t.Elem(), true }, nil)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return d.scalar(n, reflect.TypeFor[string](), path) // in base64
		}
		list := make([]any, 0, len(n.Content))
		d.Items(n, path, func(n *Node, path string) { list = append(list, d.typed(n, t.Elem(), path)) })
		return list
	case reflect.Interface:
		value, _ := d.value(n, path)
		return value
	default:
		return d.scalar(n, t, path)
	}
}

// maxKnown is the maximum number of fields of a Go type that an error lists.
const maxKnown = 12

// object reads a mapping. typeOf returns the type of a field.
func (d *Decoder) object(n *Node, path string, typeOf func(name string) (reflect.Type, bool), known map[string]reflect.Type) any {
	object := make(map[string]any)
	d.Entries(n, path, func(key, value *Node, path string) {
		t, ok := typeOf(key.Value)
		if !ok {
			names := slices.Sorted(maps.Keys(known))
			text := guess(key.Value, names)
			if len(names) <= maxKnown {
				text = Known(key.Value, names)
			}
			d.Errorf(key, path, "unknown field%s", text)
			return
		}
		if v := d.typed(value, t, path); v != nil {
			object[key.Value] = v
		}
	})
	return object
}

// custom reads a type with its own JSON form, such as a port, a quantity or a time.
func (d *Decoder) custom(n *Node, t reflect.Type, path string) any {
	if n.Kind != Scalar {
		d.Errorf(n, path, "must be a single value, not %s", Kind(n))
		return nil
	}
	var v any = n.Value
	if n.Tag == "!!int" {
		var number int64
		if err := n.Decode(&number); err != nil {
			d.Errorf(n, path, "%.40s is out of range", n.Value)
			return nil
		}
		v = number
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err != nil {
		d.Errorf(n, path, "%s", strings.TrimPrefix(err.Error(), "json: "))
		return nil
	}
	return v
}

// scalar reads a string, a boolean or a number. Unlike [Decoder.Text], it does not accept a number
// as a string, unless the decoder is [Decoder.Loose].
func (d *Decoder) scalar(n *Node, t reflect.Type, path string) any {
	want, tags := "an integer", []string{"!!int"}
	switch t.Kind() {
	case reflect.String:
		want, tags = "a string", []string{"!!str", "!!timestamp"}
	case reflect.Bool:
		want, tags = "true or false", []string{"!!bool"}
	case reflect.Float32, reflect.Float64:
		want, tags = "a number", []string{"!!int", "!!float"}
	}
	if d.Loose {
		switch t.Kind() {
		case reflect.String:
			tags = append(tags, "!!int", "!!float", "!!bool")
		case reflect.Bool:
			if n.Tag == "!!str" && n.Decode(new(bool)) == nil { // yes, no, on, off
				tags = append(tags, "!!str")
			}
		}
	}
	if n.Kind != Scalar || !slices.Contains(tags, n.Tag) {
		d.Errorf(n, path, "must be %s, not %s", want, Kind(n))
		return nil
	}
	if t.Kind() == reflect.String {
		return n.Value
	}
	v := reflect.New(t)
	if err := n.Decode(v.Interface()); err != nil {
		d.Errorf(n, path, "%.40s is out of range", n.Value)
		return nil
	}
	return v.Elem().Interface()
}

// structs has the fields of Go types that were read: a map[string]reflect.Type by reflect.Type.
var structs sync.Map

// fieldsOf is jsonFields, computed once for each type.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields, ok := structs.Load(t)
	if !ok {
		fields, _ = structs.LoadOrStore(t, jsonFields(t))
	}
	return fields.(map[string]reflect.Type)
}

// jsonFields returns the types of the fields of t by their names in JSON.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type)
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && (name == "" || slices.Contains(strings.Split(options, ","), "inline")):
			maps.Copy(fields, jsonFields(f.Type))
		case name != "" && name != "-":
			fields[name] = f.Type
		}
	}
	return fields
}
