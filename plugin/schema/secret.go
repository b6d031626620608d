package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// SecretsOf returns the strings and numbers of config that the schema marks as secret. config is a JSON
// object that [Schema.Apply] accepts. A schema marks its values, and everything in them, with writeOnly:
// true or format: password; propertyNames marks names. A value that equals the default of its schema is
// not secret, since the schema shows it. A number has its usual spellings. If a branch of a oneOf marks a
// value, it is secret even if it does not match this branch.
func (s *Schema) SecretsOf(config []byte) (values []string) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
	if err != nil || len(s.secret) == 0 {
		return nil
	}
	var walk func(value any, by []*jsonschema.Schema, secret bool)
	walk = func(value any, by []*jsonschema.Schema, secret bool) {
		by = inPlace(by)
		secret = secret || s.marks(by)
		isDefault := func(part *jsonschema.Schema) bool { return part.Default != nil && *part.Default == value }
		switch v := value.(type) {
		case string:
			if secret && !slices.ContainsFunc(by, isDefault) {
				values = append(values, v)
			}
		case json.Number:
			if secret && !slices.ContainsFunc(by, isDefault) {
				values = append(values, spellings(v)...)
			}
		case map[string]any:
			names := s.marks(inPlace(ofNames(by)))
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if names {
					values = append(values, name)
				}
				walk(v[name], ofProperty(by, name), secret)
			}
		case []any:
			for i, item := range v {
				walk(item, ofItem(by, i), secret)
			}
		}
	}
	walk(doc, []*jsonschema.Schema{s.compiled}, false)
	return values
}

// spellings returns the usual spellings of a number: as it is, and as programs print it.
func spellings(n json.Number) []string {
	all := []string{n.String()}
	if f, err := n.Float64(); err == nil {
		for _, format := range []byte("fg") {
			if text := strconv.FormatFloat(f, format, -1, 64); !slices.Contains(all, text) && strings.Trim(text, "-0.e+") != "" {
				all = append(all, text)
			}
		}
	}
	return all
}

// IsSecret reports whether the schema marks the property at a path such as "auth.token" as secret; see
// [Schema.SecretsOf].
func (s *Schema) IsSecret(path string) bool {
	by := inPlace([]*jsonschema.Schema{s.compiled})
	secret := s.marks(by)
	for name := range strings.SplitSeq(path, ".") {
		by = inPlace(ofProperty(by, name))
		secret = secret || s.marks(by)
	}
	return secret
}

// marks reports whether one of the schemas marks its values as secret.
func (s *Schema) marks(by []*jsonschema.Schema) bool {
	return slices.ContainsFunc(by, func(part *jsonschema.Schema) bool { return s.secret[part] })
}

// marked returns the parts of root, compiled from doc, that mark their values as secret. It reads doc,
// since formats that are not asserted are not compiled.
func marked(root *jsonschema.Schema, doc any) map[*jsonschema.Schema]bool {
	secret, seen := make(map[*jsonschema.Schema]bool), make(map[*jsonschema.Schema]bool)
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		if seen[s] {
			return
		}
		seen[s] = true
		if source, ok := sourceOf(s, doc).(map[string]any); ok && (source["writeOnly"] == true || source["format"] == "password") {
			secret[s] = true
		}
		for _, part := range parts(s) {
			visit(part)
		}
	}
	visit(root)
	return secret
}

// sourceOf returns the value in doc that s was compiled from; nil if there is none.
func sourceOf(s *jsonschema.Schema, doc any) any {
	_, fragment, _ := strings.Cut(s.Location, "#")
	pointer, err := url.PathUnescape(fragment)
	if err != nil || pointer == "" {
		return doc
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return nil
			}
			doc = v[i]
		default:
			return nil
		}
	}
	return doc
}

// inPlace returns the schemas and all subschemas that apply to the same value, each once. It leaves out the
// schemas of not.
func inPlace(schemas []*jsonschema.Schema) (all []*jsonschema.Schema) {
	seen := make(map[*jsonschema.Schema]bool)
	var add func(...*jsonschema.Schema)
	add = func(schemas ...*jsonschema.Schema) {
		for _, s := range schemas {
			if s == nil || seen[s] {
				continue
			}
			seen[s] = true
			all = append(all, s)
			add(s.Ref, s.If, s.Then, s.Else)
			add(slices.Concat(s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.DependentSchemas)))...)
			for _, either := range s.Dependencies {
				add(asSchema(either))
			}
		}
	}
	add(schemas...)
	return all
}

// ofNames returns the schemas for the names of the properties of an object that matches schemas.
func ofNames(by []*jsonschema.Schema) (all []*jsonschema.Schema) {
	for _, s := range by {
		all = append(all, s.PropertyNames) // inPlace drops nil
	}
	return all
}

// asSchema returns the schema that a keyword has, nil if it has a bool or a list.
func asSchema(either any) *jsonschema.Schema {
	s, _ := either.(*jsonschema.Schema)
	return s
}

// ofProperty returns the schemas for a property of an object that matches schemas.
func ofProperty(by []*jsonschema.Schema, name string) (all []*jsonschema.Schema) {
	for _, s := range by {
		before := len(all)
		if property := s.Properties[name]; property != nil {
			all = append(all, property)
		}
		for pattern, property := range s.PatternProperties {
			if pattern.MatchString(name) {
				all = append(all, property)
			}
		}
		if rest := asSchema(s.AdditionalProperties); rest != nil && len(all) == before {
			all = append(all, rest)
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, s := range by {
		all = append(all, s.UnevaluatedProperties) // inPlace drops nil
	}
	return all
}

// ofItem returns the schemas for the item i of an array that matches schemas.
func ofItem(by []*jsonschema.Schema, i int) (all []*jsonschema.Schema) {
	add := func(s *jsonschema.Schema) {
		if s != nil {
			all = append(all, s)
		}
	}
	for _, s := range by {
		first, isList := s.Items.([]*jsonschema.Schema)
		switch {
		case i < len(s.PrefixItems):
			add(s.PrefixItems[i])
		case i < len(first):
			add(first[i])
		case isList:
			add(asSchema(s.AdditionalItems))
		default:
			add(asSchema(s.Items))
			add(s.Items2020)
		}
		add(s.Contains)
	}
	if len(all) > 0 {
		return all
	}
	for _, s := range by {
		add(s.UnevaluatedItems)
	}
	return all
}
