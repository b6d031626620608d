package compat_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/daeace23/prober/plugin/compat"
	"github.com/daeace23/prober/plugin/schema"
)

type object = map[string]any

// generator makes random schemas, changes of them, and configs.
type generator struct{ *rand.Rand }

func pick[T any](g generator, all ...T) T { return all[g.IntN(len(all))] }

var propertyNames = []string{"a", "b", "c", "config"}

func (g generator) value(depth int) any {
	switch g.IntN(9) {
	case 0:
		return nil
	case 1:
		return g.IntN(2) == 0
	case 2:
		return pick[any](g, "", "x", "xy", "yyy", "ab12")
	case 3:
		return pick[any](g, 0.5, -1.5, 2.0)
	case 4:
		if depth > 0 {
			return []any{g.value(depth - 1), g.value(depth - 1)}[:g.IntN(3)]
		}
		return []any{}
	case 5, 6:
		if depth > 0 {
			return g.object(depth - 1)
		}
		return object{}
	default:
		return g.IntN(7) - 2
	}
}

// object returns an object. No schema declares the property zz.
func (g generator) object(depth int) object {
	o := object{}
	for _, name := range append(propertyNames, "zz") {
		if g.IntN(2) == 0 {
			o[name] = g.value(depth)
		}
	}
	return o
}

func (g generator) names() []any {
	var all []any
	for _, name := range propertyNames {
		if g.IntN(3) == 0 {
			all = append(all, name)
		}
	}
	return append([]any{}, all...)
}

// keyword sets a random keyword of s.
func (g generator) keyword(s object, depth int) {
	sub := func() any { return g.schema(depth - 1) }
	scalar := []func(){
		func() {
			s["type"] = pick[any](g, "object", "string", "integer", "number", "boolean", "array", []any{"string", "null"}, []any{"object", "integer"})
		},
		func() { s["enum"] = []any{g.value(1), "x", 1} },
		func() { s["const"] = g.value(1) },
		func() { s[pick(g, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")] = g.IntN(5) - 1 },
		func() { s["multipleOf"] = pick[any](g, 1, 2, 0.5, 4) },
		func() {
			s[pick(g, "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")] = g.IntN(4)
		},
		func() { s["pattern"] = pick(g, "^x", "y$", "[0-9]") },
		func() { s["required"] = g.names() },
		func() { s["default"] = g.value(1) },
		func() { s["uniqueItems"] = g.IntN(2) == 0 },
		func() { s["dependentRequired"] = object{pick(g, propertyNames...): g.names()} },
		func() { s["additionalProperties"] = g.IntN(3) == 0 },
		func() { s["description"] = pick(g, "one", "two") },
	}
	nested := []func(){
		func() { s["additionalProperties"] = sub() },
		func() { s["properties"] = g.properties(depth - 1) },
		func() { s["properties"] = g.properties(depth - 1) },
		func() { s["properties"] = g.properties(depth - 1) },
		func() { s["patternProperties"] = object{pick(g, "^a", "[bc]"): sub()} },
		func() { s["items"] = sub() },
		func() { s["prefixItems"] = []any{sub(), sub()}[:1+g.IntN(2)] },
		func() { s["contains"], s["minContains"] = sub(), g.IntN(3) },
		func() { s[pick(g, "allOf", "anyOf", "oneOf")] = []any{sub(), sub()}[:1+g.IntN(2)] },
		func() { s["not"] = sub() },
		func() { s["if"], s[pick(g, "then", "else")] = sub(), sub() },
		func() { s["dependentSchemas"] = object{pick(g, propertyNames...): sub()} },
		func() { s["propertyNames"] = object{"enum": []any{"a", "b", "zz"}} },
		func() { s["$ref"] = "#/$defs/d" },
		func() { s["$ref"], s["default"] = "#/$defs/d", nil },
		func() { s["anyOf"] = g.alternatives() },
		func() { s["oneOf"] = g.alternatives() },
		func() { s["unevaluatedProperties"] = false },
	}
	if depth > 0 && g.IntN(2) == 0 {
		pick(g, nested...)()
	} else {
		pick(g, scalar...)()
	}
}

func (g generator) properties(depth int) object {
	o := object{}
	for _, name := range propertyNames {
		if g.IntN(2) == 0 {
			o[name] = g.schema(depth)
		}
	}
	return o
}

func (g generator) schema(depth int) any {
	if g.IntN(12) == 0 {
		return g.IntN(3) > 0
	}
	s := object{}
	for range g.IntN(4) {
		g.keyword(s, depth)
	}
	return s
}

// alternatives returns schemas for anyOf and oneOf.
func (g generator) alternatives() (all []any) {
	for range 1 + g.IntN(2) {
		all = append(all, pick(g,
			object{"properties": object{pick(g, propertyNames...): g.leaf()}},
			object{"enum": []any{g.value(0), g.IntN(3), "x"}},
			object{"enum": many[:pick(g, 3, 3, 3, 9, 9, 9, 9, 9, len(many))]},
			object{"const": g.value(0)},
		))
	}
	return all
}

// related returns two schemas with a reference and alternatives, which differ in one of these.
func (g generator) related() (a, b object) {
	reference := func() any {
		return pick(g, object{"$ref": "#/$defs/d"}, object{"$ref": "#/$defs/d", "default": nil}, object{})
	}
	a = object{
		"$defs":      object{"d": g.leaf()},
		"properties": object{"a": reference(), "b": object{"anyOf": g.alternatives()}}, "required": []any{"a"}, "anyOf": g.alternatives(),
	}
	b = clone(a)
	switch g.IntN(4) {
	case 0:
		name := pick(g, propertyNames...)
		alternative := func() object { return object{"anyOf": []any{object{"properties": object{name: g.leaf()}}}} }
		return alternative(), alternative()
	case 1:
		b["properties"].(object)["a"] = reference()
	case 2:
		b["properties"].(object)["b"] = object{"anyOf": g.alternatives()}
	default:
		b["anyOf"] = g.alternatives()
	}
	return a, b
}

// many is a list of values that fits into a schema once, but not twice.
var many = func() (all []any) {
	for i := range 5200 {
		all = append(all, i)
	}
	return all
}()

// document returns a schema of a config.
func (g generator) document() object {
	s := object{"$defs": object{"d": g.leaf()}, "properties": g.properties(2)}
	for range g.IntN(4) {
		g.keyword(s, 2)
	}
	return s
}

// leaf returns a schema without references.
func (g generator) leaf() object {
	return pick(g, object{"type": "string"}, object{"default": 3}, object{"minimum": 1, "default": 2}, object{"type": "integer"}, object{"properties": object{"a": object{"default": 1}}, "required": []any{"a"}})
}

// changed returns a copy of a schema with a few random changes.
func (g generator) changed(s object) object {
	next := clone(s)
	for range 1 + g.IntN(2) {
		at, depth := next, 2
		for depth > 0 && g.IntN(3) > 0 {
			var inner []object
			for _, v := range sortedValues(at) {
				if o, ok := v.(object); ok {
					inner = append(inner, o)
				}
				if list, ok := v.([]any); ok {
					for _, item := range list {
						if o, ok := item.(object); ok {
							inner = append(inner, o)
						}
					}
				}
			}
			if len(inner) == 0 {
				break
			}
			at = pick(g, inner...)
			depth--
		}
		if g.IntN(2) == 0 {
			for _, k := range sortedKeys(at) {
				if k != "$defs" && g.IntN(2) == 0 {
					delete(at, k)
					break
				}
			}
		} else {
			g.keyword(at, depth)
		}
	}
	return next
}

func sortedKeys(o object) []string {
	var all []string
	for k := range o {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

func sortedValues(o object) (all []any) {
	for _, k := range sortedKeys(o) {
		all = append(all, o[k])
	}
	return all
}

func clone(o object) object {
	var out object
	if err := json.Unmarshal([]byte(text(o)), &out); err != nil {
		panic(err)
	}
	return out
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// unknown reports whether a config has a field, other than zz, for which none of the schemas has a rule.
func unknown(root object, schemas []any, config any) bool {
	switch c := config.(type) {
	case []any:
		for _, item := range c {
			if unknown(root, members(root, schemas, "", true), item) {
				return true
			}
		}
	case object:
		for name, v := range c {
			inner := members(root, schemas, name, false)
			if name != "zz" && len(inner) == 0 || unknown(root, inner, v) {
				return true
			}
		}
	}
	return false
}

// members returns the schemas for a property, or for items, within schemas and their parts.
func members(root object, schemas []any, name string, items bool) (all []any) {
	for _, s := range schemas {
		o, ok := s.(object)
		if !ok {
			continue
		}
		var parts []any
		for _, k := range []string{"allOf", "anyOf", "oneOf"} {
			list, _ := o[k].([]any)
			parts = append(parts, list...)
		}
		parts = append(parts, o["not"], o["if"], o["then"], o["else"])
		named, _ := o["dependentSchemas"].(object)
		parts = append(parts, sortedValues(named)...)
		if o["$ref"] != nil {
			parts = append(parts, root["$defs"].(object)["d"])
		}
		all = append(all, members(root, parts, name, items)...)
		if items {
			first, _ := o["prefixItems"].([]any)
			all = append(append(all, first...), o["items"], o["contains"])
			continue
		}
		properties, _ := o["properties"].(object)
		if p, ok := properties[name]; ok {
			all = append(all, p)
		}
		patterns, _ := o["patternProperties"].(object)
		all = append(all, sortedValues(patterns)...)
		if rest, ok := o["additionalProperties"]; ok {
			all = append(all, rest)
		}
	}
	return all
}

// check fails if the verdict is that a change is compatible, and a config of the old schema is refused by the next.
func check(t *testing.T, seed uint64) (compatible, configs int) {
	t.Helper()
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	a := g.document()
	b := g.changed(a)
	if seed%3 == 0 {
		a, b = g.related()
	}
	old, err := schema.New([]byte(text(a)))
	if err != nil {
		return 0, 0
	}
	next, err := schema.New([]byte(text(b)))
	if err != nil {
		return 0, 0
	}
	changes := compat.Schemas(old, next)
	if slices.ContainsFunc(changes, compat.Change.Breaking) {
		return 0, 0
	}
	for range 60 {
		config := g.object(2)
		if unknown(a, []any{a}, config) {
			continue
		}
		if _, err := old.Apply([]byte(text(config))); err != nil {
			continue
		}
		configs++
		if _, err := next.Apply([]byte(text(config))); err != nil {
			t.Fatalf("seed %d: %v\nold  %s\nnext %s\nconfig %s\nchanges %v", seed, err, text(a), text(b), text(config), changes)
		}
	}
	return 1, configs
}

// A compatible verdict means that configs of the old version are valid for the next one.
func TestCompatibleSchemasAcceptOldConfigs(t *testing.T) {
	compatible, configs := 0, 0
	for seed := range uint64(900) {
		c, n := check(t, seed)
		compatible, configs = compatible+c, configs+n
	}
	if compatible < 250 || configs < 1500 {
		t.Errorf("%d compatible pairs of schemas, %d configs: too few to show anything", compatible, configs)
	}
	t.Log(fmt.Sprint(compatible, " compatible pairs of schemas, ", configs, " configs"))
}

func FuzzSchemas(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { check(t, seed) })
}
