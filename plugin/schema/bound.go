package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The author of a manifest, or of the config in a pod's annotation, must not be able to hang the
// agent. Three things could:
//
//   - References: 30 lines of schema in which each refers twice to the next have 2^30 parts
//     with their references written out. maxSize bounds them, and recursion is refused.
//   - A large config and a large schema: each part of the schema may be evaluated for each value
//     of the config. maxWork bounds the product.
//   - Numbers such as 1e1000000000, which the validator computes with math/big. maxDigits and
//     maxExponent bound them.
//
// Patterns need no limit: package regexp takes time that is linear in the text.
const (
	maxSize     = 10_000  // size of a schema with its references replaced, see measure
	maxWork     = 500_000 // size of the schema times values of the config: a second or two
	maxDigits   = 400     // digits of a number, including its exponent
	maxExponent = 400     // more than a float64 has
	bytesAValue = 64      // bytes of a string that count as one value
)

// measure returns the size of a schema: the number of its parts, of their defaults, and of the
// values that they list, with each reference replaced by its target. Recursion, and a size above
// maxSize, are errors.
func measure(root *jsonschema.Schema) (size int, err error) {
	sizes := make(map[*jsonschema.Schema]int) // 0 while it is being measured
	var visit func(s *jsonschema.Schema) (int, error)
	visit = func(s *jsonschema.Schema) (int, error) {
		if size, seen := sizes[s]; seen && size == 0 {
			_, at, _ := strings.Cut(s.Location, "#")
			return 0, fmt.Errorf("a schema must not be recursive: %q refers to itself", "#"+at)
		} else if seen {
			return size, nil
		}
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			return 0, errors.New("$dynamicRef and $recursiveRef must not be used")
		}
		sizes[s] = 0
		size := ownSize(s)
		for _, part := range parts(s) {
			n, err := visit(part)
			if err != nil {
				return 0, err
			}
			if size += n; size > maxSize {
				return 0, fmt.Errorf("the schema is too large: its references written out, it has more than %d parts and values", maxSize)
			}
		}
		sizes[s] = size
		return size, nil
	}
	return visit(root)
}

// ownSize returns the size of s without its subschemas.
func ownSize(s *jsonschema.Schema) int {
	size := 1 + len(s.Required)
	if s.Enum != nil {
		size += len(s.Enum.Values)
	}
	for _, names := range s.DependentRequired {
		size += len(names)
	}
	for name := range s.Properties {
		size += len(name) / bytesAValue
	}
	if s.Default != nil {
		n, _ := countValues(*s.Default, "")
		size += n
	}
	return size
}

// parts returns the schemas that s consists of and refers to.
func parts(s *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{
		s.Ref, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties,
		s.Items2020, s.Contains, s.UnevaluatedItems, s.ContentSchema,
	}
	all = slices.Concat(all, s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems)
	all = slices.AppendSeq(all, maps.Values(s.DependentSchemas))
	all = slices.AppendSeq(all, maps.Values(s.Properties))
	all = slices.AppendSeq(all, maps.Values(s.PatternProperties))
	for _, either := range append(slices.Collect(maps.Values(s.Dependencies)), s.AdditionalProperties, s.Items, s.AdditionalItems) {
		switch either := either.(type) {
		case *jsonschema.Schema:
			all = append(all, either)
		case []*jsonschema.Schema:
			all = append(all, either...)
		}
	}
	return slices.DeleteFunc(all, func(part *jsonschema.Schema) bool { return part == nil })
}

// countValues returns the number of values within a JSON value, or an error for a number that is out
// of range.
func countValues(value any, path string) (count int, err error) {
	switch v := value.(type) {
	case json.Number:
		return 1, checkNumber(v, path)
	case string:
		return 1 + len(v)/bytesAValue, nil
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n, err := countValues(v[name], path+"."+name)
			if err != nil {
				return 0, err
			}
			count += n + len(name)/bytesAValue
		}
	case []any:
		for i, item := range v {
			n, err := countValues(item, path+"."+strconv.Itoa(i))
			if err != nil {
				return 0, err
			}
			count += n
		}
	}
	return count + 1, nil
}

func checkNumber(n json.Number, path string) error {
	text := strings.ToLower(n.String())
	_, exponent, ok := strings.Cut(text, "e")
	power, err := strconv.Atoi(exponent)
	if len(text) > maxDigits || ok && (err != nil || power > maxExponent || power < -maxExponent) {
		return fmt.Errorf("%s: the number %.40s is out of range", path, text)
	}
	return nil
}
