package plugin

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

const (
	// maxSteps is how many steps it may take to hold a config against a schema. Ten lines
	// of schema that refer to each other twice and more take longer than anyone lives,
	// and those with defaults make a config for which there is no memory.
	maxSteps     = 100_000
	maxStepDepth = 1000 // of a step within others
)

// effort counts the steps that a config takes, before they are taken.
type effort struct {
	left int
	err  error
}

// step takes n steps, and reports whether they were left.
func (e *effort) step(n, depth int) bool {
	if e.left -= n; e.err == nil && (e.left < 0 || depth > maxStepDepth) {
		e.err = fmt.Errorf("the schema is too complicated: it takes more than %d steps", maxSteps)
	}
	return e.err == nil
}

// text counts a text, of which the config may come to have many copies.
func (e *effort) text(s string) bool { return e.step(len(s)/8, 0) }

// validate counts what it takes to hold value against s; all branches count.
func (e *effort) validate(s *jsonschema.Schema, value any, depth int) {
	if s == nil || !e.step(1, depth) {
		return
	}
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		e.err = errors.New("$dynamicRef and $recursiveRef may not be used")
		return
	}
	for _, part := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		e.validate(part, value, depth+1)
	}
	for _, parts := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, part := range parts {
			e.validate(part, value, depth+1)
		}
	}
	for _, part := range s.DependentSchemas {
		e.validate(part, value, depth+1)
	}
	for _, part := range s.Dependencies {
		e.either(part, value, depth)
	}
	if s.Enum != nil {
		e.step(len(s.Enum.Values), depth)
	}
	switch v := value.(type) {
	case string:
		e.step(len(v)/64, depth)
	case map[string]any:
		e.object(s, v, depth)
	case []any:
		e.array(s, v, depth)
	}
}

// either counts what may be a schema or something else.
func (e *effort) either(part, value any, depth int) {
	switch part := part.(type) {
	case *jsonschema.Schema:
		e.validate(part, value, depth+1)
	case []*jsonschema.Schema:
		for _, one := range part {
			e.validate(one, value, depth+1)
		}
	}
}

func (e *effort) object(s *jsonschema.Schema, object map[string]any, depth int) {
	for name, child := range object {
		e.validate(s.PropertyNames, name, depth+1)
		e.validate(s.Properties[name], child, depth+1)
		for _, part := range s.PatternProperties {
			e.validate(part, child, depth+1)
		}
		e.either(s.AdditionalProperties, child, depth)
		e.validate(s.UnevaluatedProperties, child, depth+1)
	}
}

func (e *effort) array(s *jsonschema.Schema, items []any, depth int) {
	for i, child := range items {
		if i < len(s.PrefixItems) {
			e.validate(s.PrefixItems[i], child, depth+1)
		}
		for _, part := range []*jsonschema.Schema{s.Items2020, s.Contains, s.UnevaluatedItems} {
			e.validate(part, child, depth+1)
		}
		e.either(s.Items, child, depth)
		e.either(s.AdditionalItems, child, depth)
	}
}

const (
	maxDigits   = 400 // of a number, its exponent included
	maxExponent = 400 // more than a float64 has
)

// checkNumbers refuses numbers that are too large to compute with: math/big does not take
// all of them, and then the validator panics.
func checkNumbers(value any, path string) error {
	switch v := value.(type) {
	case json.Number:
		text := strings.ToLower(v.String())
		_, exponent, ok := strings.Cut(text, "e")
		n, err := strconv.Atoi(exponent)
		if len(text) > maxDigits || ok && (err != nil || n > maxExponent || n < -maxExponent) {
			return fmt.Errorf("%s: the number %.40s is out of range", path, text)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := checkNumbers(v[name], path+"."+name); err != nil {
				return err
			}
		}
	case []any:
		for i, child := range v {
			if err := checkNumbers(child, path+"."+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
