package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Schema is the JSON Schema (2020-12) of a plugin's config. The zero value takes
// any object. It is safe for concurrent use.
type Schema struct {
	source   []byte
	compiled *jsonschema.Schema
}

// schemaURL is the address that a schema has for itself; nothing is loaded from it.
const schemaURL = "prober:///config"

// noLoader refuses what a schema refers to outside of itself: a manifest must not
// make the host read files or URLs.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref to %s: a schema may refer to nothing outside of itself", url)
}

// NewSchema reads a schema in JSON.
func NewSchema(source []byte) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, err
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, errors.New("a schema is an object")
	}
	if err := checkNumbers(doc, "schema"); err != nil {
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
	return &Schema{source, compiled}, nil
}

func schemaError(err error) error {
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*jsonschema.ValidationError](e.Err); ok {
			return mistakes(v, "")
		}
	}
	return err
}

// JSON returns the schema as it was read, nil for the zero value.
func (s *Schema) JSON() []byte { return s.source }

// Apply holds config, a JSON object, against the schema and returns it with the
// schema's defaults filled in. Its errors name the field, "config.maxLag"; those of the
// schema are [*ConfigError]s, joined.
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
		return nil, errors.New("config: want an object")
	}
	if err := checkNumbers(doc, "config"); err != nil {
		return nil, err
	}
	if s.compiled != nil {
		e := effort{left: maxSteps}
		e.fill(s.compiled, object, 0)
		if e.validate(s.compiled, object, 0); e.err != nil {
			return nil, fmt.Errorf("config: %w", e.err)
		}
		if err := s.compiled.Validate(object); err != nil {
			return nil, configError(err)
		}
	}
	return json.Marshal(object)
}

const maxFillDepth = 32 // a schema may refer to itself

// fill sets the fields of object that s has a default for and that are missing.
func (e *effort) fill(s *jsonschema.Schema, object map[string]any, depth int) {
	if s == nil || depth > maxFillDepth || !e.step(1, depth) {
		return
	}
	e.fill(s.Ref, object, depth+1)
	for _, part := range s.AllOf {
		e.fill(part, object, depth+1)
	}
	for name, property := range s.Properties {
		value, ok := object[name]
		if !ok {
			if value = e.defaultOf(property, depth); value == nil || !e.text(name) {
				continue
			}
			object[name] = value
		}
		if child, ok := value.(map[string]any); ok {
			e.fill(property, child, depth+1)
		}
	}
}

// defaultOf returns a copy of the default that s has, nil where it has none.
func (e *effort) defaultOf(s *jsonschema.Schema, depth int) any {
	for ; s != nil && depth <= maxFillDepth; depth++ {
		if s.Default != nil {
			return e.clone(*s.Default)
		}
		s = s.Ref
	}
	return nil
}

// clone returns a copy of a default.
func (e *effort) clone(value any) any {
	if !e.step(1, 0) {
		return nil
	}
	switch v := value.(type) {
	case string:
		e.text(v)
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			e.text(name)
			out[name] = e.clone(item)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = e.clone(out[i])
		}
		return out
	default:
		return value
	}
}

func configError(err error) error {
	v, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fmt.Errorf("config: %w", err)
	}
	return mistakes(v, "config")
}

// mistakes joins what is wrong in the order of the fields. The validator goes through maps, and
// finds it in another order each time.
func mistakes(v *jsonschema.ValidationError, root string) error {
	errs := leaves(v, root)
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// leaves returns the errors at the bottom of v, each with its field's path.
func leaves(v *jsonschema.ValidationError, root string) []error {
	if len(v.Causes) > 0 {
		var errs []error
		for _, cause := range v.Causes {
			errs = append(errs, leaves(cause, root)...)
		}
		return errs
	}
	if unknown, ok := v.ErrorKind.(*kind.AdditionalProperties); ok {
		slices.Sort(unknown.Properties)
	}
	path := strings.Join(append([]string{root}, v.InstanceLocation...), ".")
	return []error{&ConfigError{strings.TrimPrefix(path, "."), messageOf(v)}}
}

// messageOf returns what is wrong, without a string of the config: it may be a password, and
// the message is shown to whoever may not see the config.
func messageOf(v *jsonschema.ValidationError) string {
	switch k := v.ErrorKind.(type) {
	case *kind.Pattern:
		return fmt.Sprintf("the value does not match pattern '%s'", k.Want)
	case *kind.Format:
		return fmt.Sprintf("the value is not valid %s", k.Want)
	}
	if unit := v.BasicOutput(); unit.Error != nil {
		return unit.Error.String()
	} else if len(unit.Errors) > 0 && unit.Errors[0].Error != nil {
		return unit.Errors[0].Error.String()
	}
	return "invalid"
}

// ConfigError is what is wrong with one field of a config.
type ConfigError struct {
	Field   string // its path, like config.limits.maxLag
	Message string
}

// Error returns "FIELD: message".
func (e *ConfigError) Error() string { return e.Field + ": " + e.Message }
