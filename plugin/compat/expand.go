package compat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
)

// A schema is compared in its expanded form: a bool, or an object with those keywords only that affect
// validation or defaults, and with remarks. A reference is replaced by its target, as a member of allOf.

// object is a JSON object.
type object = map[string]any

// place is the kind of value that a keyword has.
type place int

const (
	inValue  place = iota // any JSON value
	inSchema              // a schema
	inList                // a list of schemas
	inMap                 // schemas by name
)

// keywords lists the keywords of an expanded schema. All others are annotations.
var keywords = map[string]place{
	"type": inValue, "enum": inValue, "const": inValue, "default": inValue, "format": inValue, "pattern": inValue,
	"minimum": inValue, "exclusiveMinimum": inValue, "maximum": inValue, "exclusiveMaximum": inValue, "multipleOf": inValue,
	"minLength": inValue, "maxLength": inValue, "minItems": inValue, "maxItems": inValue, "uniqueItems": inValue,
	"minProperties": inValue, "maxProperties": inValue, "required": inValue, "dependentRequired": inValue,
	"minContains": inValue, "maxContains": inValue, "writeOnly": inValue,
	"not": inSchema, "if": inSchema, "then": inSchema, "else": inSchema, "items": inSchema, "contains": inSchema,
	"additionalProperties": inSchema, "unevaluatedProperties": inSchema, "unevaluatedItems": inSchema, "propertyNames": inSchema,
	"allOf": inList, "anyOf": inList, "oneOf": inList, "prefixItems": inList,
	"properties": inMap, "patternProperties": inMap, "dependentSchemas": inMap,
}

// refused lists the keywords that Compare does not follow.
var refused = []string{"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$vocabulary", "additionalItems", "dependencies"}

// draft is the only dialect of JSON Schema that Compare reads.
const draft = "https://json-schema.org/draft/2020-12/schema"

// maxParts bounds the expanded size of a schema. Package schema accepts fewer parts.
const maxParts = 20_000

var errLarge = errors.New("is too large to be compared")

// expander replaces the references of one document.
type expander struct {
	root any
	left int // number of schemas that it may still return
}

// parse returns a JSON value with numbers as text.
func parse(data []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&value)
	return value, err
}

// expand returns the expanded form of a schema's source; true if source is nil.
func expand(source []byte) (any, error) {
	if source == nil {
		return true, nil
	}
	root, err := parse(source)
	if err != nil {
		return nil, err
	}
	x := &expander{root: root, left: maxParts}
	if o, ok := root.(object); ok {
		if dialect, ok := o["$schema"].(string); ok && strings.TrimSuffix(dialect, "#") != draft {
			return nil, fmt.Errorf("is of the dialect %.80q, which cannot be compared", dialect)
		}
	}
	return x.schema(root, true)
}

// schema expands one schema. top reports whether it is the whole document.
func (x *expander) schema(value any, top bool) (any, error) {
	if x.left--; x.left < 0 {
		return nil, errLarge
	}
	from, ok := value.(object)
	if !ok {
		return value, nil // a bool
	}
	for _, keyword := range refused {
		if _, ok := from[keyword]; ok {
			return nil, fmt.Errorf("has %s, which cannot be compared", keyword)
		}
	}
	if _, ok := from["$id"]; ok && !top {
		return nil, errors.New("has $id in a part, which cannot be compared")
	}
	to := object{}
	for keyword, value := range from {
		expanded, err := x.keyword(keyword, value)
		if err != nil {
			return nil, err
		}
		if expanded != nil || keyword == "const" { // null is a value of const alone
			to[keyword] = expanded
		}
	}
	return to, x.reference(from, to)
}

// keyword expands the value of a keyword; nil for an annotation.
func (x *expander) keyword(keyword string, value any) (any, error) {
	kind, ok := keywords[keyword]
	if !ok || keyword == "writeOnly" && value != true {
		return nil, nil
	}
	switch v := value.(type) {
	case []any:
		if kind == inList {
			return x.list(v)
		}
		if kind == inSchema {
			return nil, fmt.Errorf("has a list of schemas as %s, which cannot be compared", keyword)
		}
	case object:
		if kind == inMap {
			return x.named(v)
		}
	}
	if kind == inSchema {
		return x.schema(value, false)
	}
	return value, nil
}

func (x *expander) list(from []any) (any, error) {
	to := make([]any, len(from))
	var err error
	for i := range from {
		if to[i], err = x.schema(from[i], false); err != nil {
			return nil, err
		}
	}
	return to, nil
}

func (x *expander) named(from object) (any, error) {
	to := make(object, len(from))
	var err error
	for name := range from {
		if to[name], err = x.schema(from[name], false); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// reference replaces the $ref of from by its target, in to. A property without a default has the
// default of its target. If its own default is null, hosts fill in nothing.
func (x *expander) reference(from, to object) error {
	ref, ok := from["$ref"].(string)
	if !ok {
		return nil
	}
	target, err := x.resolve(ref)
	if err != nil {
		return err
	}
	all, _ := to["allOf"].([]any)
	to["allOf"] = slices.Insert(slices.Clone(all), 0, target)
	t, _ := target.(object)
	if _, ok := from["default"]; !ok && t["default"] != nil {
		to["default"] = t["default"]
	}
	return nil
}

// resolve returns the expanded target of a reference within the document.
func (x *expander) resolve(ref string) (any, error) {
	pointer, local := strings.CutPrefix(ref, "#")
	pointer, err := url.PathUnescape(pointer)
	if !local || err != nil || pointer != "" && pointer[0] != '/' {
		return nil, fmt.Errorf("has the $ref %.80q, which cannot be compared", ref)
	}
	at := x.root
	for _, step := range strings.Split(pointer, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		o, _ := at.(object)
		next, ok := o[step]
		if !ok {
			return nil, fmt.Errorf("has the $ref %.80q, which cannot be compared", ref)
		}
		at = next
	}
	return x.schema(at, false)
}

// equal reports whether two JSON values are the same. Numbers are compared by value.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && number(a).Cmp(number(b)) == 0
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case object:
		b, ok := b.(object)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			if other, ok := b[name]; !ok || !equal(a[name], other) {
				return false
			}
		}
		return true
	default:
		return a == b
	}
}

// number returns the value of a number. Package schema bounds its digits and exponent.
func number(n json.Number) *big.Rat {
	if r, ok := new(big.Rat).SetString(n.String()); ok {
		return r
	}
	return new(big.Rat)
}

// text returns a value as JSON on one line, cut to 80 bytes.
func text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return "?"
	}
	return fmt.Sprintf("%.80s", data)
}
