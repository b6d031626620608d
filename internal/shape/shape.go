// Package shape describes the values that a reader of a file accepts, and writes the description as a JSON Schema
// for editors. Readers describe themselves: package yamlpos records them, and core/declared reads Go types.
package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Shape describes the accepted values of each kind. The zero value accepts nothing.
type Shape struct {
	Doc    string  // for people; "" for none
	Any    bool    // every value; the fields below are not used
	Ref    string  // name of a definition in place of the other fields, such as "probe"
	Object *Object // nil: no mapping
	List   *List   // nil: no list
	Scalar *Scalar // nil: no scalar
}

// Object describes mappings.
type Object struct {
	Fields   map[string]*Shape
	Required []string
	Others   *Shape // of fields with other names; nil: there are none
	Single   bool   // exactly one field is set
}

// List describes lists.
type List struct{ Items *Shape }

// Scalar describes strings, numbers and booleans.
type Scalar struct{ Form }

// Form describes or restricts a scalar.
type Form struct {
	Types     []string // names in JSON Schema: string, integer, number, boolean; nil: the types of the reader
	Enum      []string // the accepted texts; nil: others too
	Pattern   string   // regular expression of the strings; "" for none
	NotEmpty  bool
	MaxLength int // in characters; 0 for none

	Least, Most *int // of numbers; nil for none

	// Good and Bad are examples that the pattern matches and does not match. They check the pattern against the
	// reader, and are not written.
	Good, Bad []string
}

// Add adds a further restriction.
func (f *Form) Add(g Form) {
	if g.Types != nil {
		f.Types = g.Types
	}
	if g.Enum != nil {
		f.Enum = g.Enum
	}
	if g.Pattern != "" {
		f.Pattern = g.Pattern
	}
	if g.MaxLength > 0 {
		f.MaxLength = g.MaxLength
	}
	if g.Least != nil {
		f.Least = g.Least
	}
	if g.Most != nil {
		f.Most = g.Most
	}
	f.NotEmpty = f.NotEmpty || g.NotEmpty
}

// OneOf returns the form of the texts of values.
func OneOf[T fmt.Stringer](values ...T) Form {
	f := Form{Enum: make([]string, len(values))}
	for i := range values {
		f.Enum[i] = values[i].String()
	}
	return f
}

// Text returns the types of the scalars that are read as a string: 1.10 is the string "1.10".
func Text() []string { return []string{"string", "number", "boolean"} }

// Size is the form of a number of bytes.
func Size() Form {
	return Form{Types: []string{"string", "integer"}, Pattern: `^[0-9]+(Ki|Mi|Gi)?$`, Least: new(1), Good: []string{"65536", "64Ki", "32Mi", "1Gi"}, Bad: []string{"64K", "64 Ki", "-1", "1.5Mi", "Mi"}}
}

// Number is the form of a number from least to most, which may be written as a text. A nil bound is none.
func Number(least, most *int) Form {
	return Form{Types: []string{"number", "string"}, Pattern: `^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`, Least: least, Most: most}
}

// duration is the pattern of a duration without a sign.
const duration = `(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`

// SignedDuration is the form of a duration.
func SignedDuration() Form {
	f := Duration()
	f.Pattern, f.Good, f.Bad = "^[-+]?"+duration, append(f.Good, "-1s"), []string{"", "1", "1d", "s", "1 s"}
	return f
}

// Duration is the form of a duration that is not negative. A number is a duration only if it is 0.
func Duration() Form {
	return Form{
		Types: []string{"string", "integer"}, Pattern: `^\+?` + duration, Least: new(0), Most: new(0),
		Good: []string{"0", "1s", "1m30s", "1.5h", ".5s", "100µs"}, Bad: []string{"", "1", "1d", "-1s", "s", "1 s"},
	}
}

// Setting returns the form of a size, a duration or a count, whichever accepts returns true for.
func Setting(accepts func(text string) bool) Form {
	switch {
	case accepts("1s"), accepts("1ms"):
		return Form{Types: []string{"string"}, Pattern: Duration().Pattern}
	case accepts("1Ki"), accepts("64Ki"):
		return Size()
	default:
		return Form{Types: []string{"string", "integer"}, Pattern: "^[0-9]+$", Least: new(1)}
	}
}

// Describe sets the texts of the fields of s. It calls text with the path of each, such as "requests[].allow", below
// path. It does not follow references.
func (s *Shape) Describe(path string, text func(path string) string) {
	if path != "" {
		s.Doc = text(path)
	}
	if s.Object != nil {
		for name, field := range s.Object.Fields {
			field.Describe(strings.TrimPrefix(path+"."+name, "."), text)
		}
	}
	if s.List != nil {
		s.List.Items.Describe(path+"[]", text)
	}
}

// Schema returns the JSON Schema of s.
func (s *Shape) Schema() map[string]any {
	schema := s.values()
	if s.Doc != "" {
		schema["description"] = s.Doc
	}
	return schema
}

// values returns the JSON Schema of s without a description.
func (s *Shape) values() map[string]any {
	switch {
	case s.Any:
		return map[string]any{}
	case s.Ref != "":
		return map[string]any{"$ref": "#/$defs/" + s.Ref}
	}
	var all []map[string]any
	if s.Object != nil {
		all = append(all, s.Object.schema())
	}
	if s.List != nil {
		all = append(all, map[string]any{"type": "array", "items": s.List.Items.Schema()})
	}
	if s.Scalar != nil {
		all = append(all, s.Scalar.schema())
	}
	switch len(all) {
	case 0:
		return map[string]any{"not": map[string]any{}}
	case 1:
		return all[0]
	}
	return map[string]any{"anyOf": all}
}

func (o *Object) schema() map[string]any {
	schema := map[string]any{"type": "object"}
	if len(o.Fields) > 0 {
		fields := make(map[string]any, len(o.Fields))
		for name, field := range o.Fields {
			fields[name] = field.Schema()
		}
		schema["properties"] = fields
	}
	if len(o.Required) > 0 {
		schema["required"] = slices.Sorted(slices.Values(o.Required))
	}
	switch {
	case o.Others == nil:
		schema["additionalProperties"] = false
	case !o.Others.Any:
		schema["additionalProperties"] = o.Others.Schema()
	}
	if o.Single {
		schema["minProperties"], schema["maxProperties"] = 1, 1
	}
	return schema
}

func (c *Scalar) schema() map[string]any {
	if c.Enum != nil {
		return map[string]any{"enum": slices.Clone(c.Enum)}
	}
	schema := map[string]any{"type": c.Types}
	if len(c.Types) == 1 {
		schema["type"] = c.Types[0]
	}
	if c.NotEmpty && c.Pattern == "" {
		schema["minLength"] = 1
	}
	if c.Pattern != "" {
		schema["pattern"] = c.Pattern
	}
	if c.MaxLength > 0 {
		schema["maxLength"] = c.MaxLength
	}
	if c.Least != nil {
		schema["minimum"] = *c.Least
	}
	if c.Most != nil && *c.Most < math.MaxInt32 {
		schema["maximum"] = *c.Most
	}
	return schema
}

// Encode returns the text of a JSON Schema.
func Encode(schema map[string]any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(schema)
	return text.Bytes(), err
}
