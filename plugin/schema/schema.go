// Package schema validates a plugin's config with the JSON Schema (2020-12) of its manifest,
// and fills in the defaults.
//
// Start at [Schema.Apply]. A schema may use all of JSON Schema, except that a $ref must not refer to
// another document, and must not be recursive. This limits the work for a config; see bound.go.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is the JSON Schema of a plugin's config. The zero value accepts any object. It is safe for
// concurrent use.
type Schema struct {
	source   []byte
	compiled *jsonschema.Schema
	size     int                         // of compiled, see [measure]
	secret   map[*jsonschema.Schema]bool // the subschemas that mark secrets
}

// schemaURL is the base URL of a schema. Nothing is loaded from it.
const schemaURL = "prober:///config"

// noLoader refuses references to other documents: a manifest must not make the host read files
// or URLs.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref to %s: a schema may refer to nothing outside of itself", url)
}

// New parses a schema in JSON.
func New(source []byte) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, err
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, errors.New("a schema must be an object")
	}
	if _, err := countValues(doc, "schema"); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, schemaError(err)
	}
	size, err := measure(compiled)
	if err != nil {
		return nil, err
	}
	return &Schema{source, compiled, size, marked(compiled, doc)}, nil
}

// JSON returns the source of the schema, nil for the zero value.
func (s *Schema) JSON() []byte { return s.source }

// Apply validates config, a JSON object, and returns it with the schema's defaults filled in.
// Its errors name the field, such as "config.maxLag". Violations of the schema are [*FieldError]s,
// joined.
func (s *Schema) Apply(config []byte) ([]byte, error) {
	if len(config) == 0 {
		config = []byte("{}")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("config: must be an object")
	}
	fillDefaults(s.compiled, object)
	values, err := countValues(doc, "config")
	if err != nil {
		return nil, err
	}
	if s.compiled != nil {
		if values > maxWork/s.size {
			return nil, errors.New("config: too large for the schema of the plugin")
		}
		if err := s.compiled.Validate(object); err != nil {
			return nil, configError(err)
		}
	}
	return json.Marshal(object)
}

// fillDefaults sets the missing properties of object for which s has a default.
func fillDefaults(s *jsonschema.Schema, object map[string]any) {
	if s == nil {
		return
	}
	fillDefaults(s.Ref, object)
	for _, part := range s.AllOf {
		fillDefaults(part, object)
	}
	for name, property := range s.Properties {
		value, ok := object[name]
		if !ok {
			if value = defaultOf(property); value == nil {
				continue
			}
			object[name] = value
		}
		if child, ok := value.(map[string]any); ok {
			fillDefaults(property, child)
		}
	}
}

// defaultOf returns a copy of the default of s, nil if it has none.
func defaultOf(s *jsonschema.Schema) any {
	for ; s != nil; s = s.Ref {
		if s.Default != nil {
			return clone(*s.Default)
		}
	}
	return nil
}

// clone returns a deep copy of a JSON value.
func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = clone(item)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = clone(out[i])
		}
		return out
	default:
		return value
	}
}
