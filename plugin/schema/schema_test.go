package schema_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/schema"
)

func newSchema(t *testing.T, source string) *schema.Schema {
	t.Helper()
	s, err := schema.New([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestErrorsAreSorted runs each config many times: the validator ranges over maps.
func TestErrorsAreSorted(t *testing.T) {
	s := newSchema(t, `{"additionalProperties":false,"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"properties":{"d":false}}}}`)
	for config, want := range map[string]string{
		`{"a":1,"b":2,"c":{"d":3},"x":4,"y":5,"z":6}`: "config.a: got number, want string\nconfig.b: got number, want string\n" +
			"config.c.d: false schema\nconfig: additional properties 'x', 'y', 'z' not allowed",
		`{"a":1e999,"b":1e999,"c":{"d":1e999}}`: "config.a: the number 1e999 is out of range",
	} {
		for range 50 {
			if _, err := s.Apply([]byte(config)); err == nil || err.Error() != want {
				t.Fatalf("%s: got %v, want %s", config, err, want)
			}
		}
	}
	texts := make(map[string]bool)
	for range 50 {
		_, err := schema.New([]byte(`{"properties":{"a":{"type":1},"b":{"minLength":"2"},"c":{"required":3}}}`))
		texts[fmt.Sprint(err)] = true
	}
	if len(texts) != 1 {
		t.Errorf("got different errors for one schema: %q", slices.Sorted(maps.Keys(texts)))
	}
}

func TestNewErrors(t *testing.T) {
	for source, want := range map[string]string{
		`{"$ref":"file:///etc/hosts"}`:       "a schema may refer to nothing outside of itself",
		`{"$ref":"http://127.0.0.1/schema"}`: "a schema may refer to nothing outside of itself",

		`{"$ref":"#"}`: `a schema must not be recursive: "#" refers to itself`,
		`{"properties":{"next":{"$ref":"#","default":{}}}}`:                                                               `a schema must not be recursive: "#" refers to itself`,
		`{"properties":{"x":{"items":{"$ref":"#/$defs/a"}}},"$defs":{"a":{"anyOf":[{"not":{"$ref":"#/$defs/a"}}]}}}`:      `a schema must not be recursive: "#/$defs/a" refers to itself`,
		`{"properties":{"x":{"$ref":"#a"}},"$defs":{"a":{"$anchor":"a","additionalProperties":{"$ref":"#a"}}}}`:           `a schema must not be recursive: "#/$defs/a" refers to itself`,
		`{"dependentSchemas":{"x":{"if":{"prefixItems":[{"$ref":"#"}]}}}}`:                                                "must not be recursive",
		`{"patternProperties":{"x":{"contains":{"unevaluatedItems":{"propertyNames":{"$ref":"#"}}}}}}`:                    "must not be recursive",
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"dependencies":{"a":{"$ref":"#"}}}]}`:             "must not be recursive",
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":{"oneOf":[{"$ref":"#"}]}}`: "must not be recursive",
		`{"$dynamicAnchor":"a","properties":{"x":{"$dynamicRef":"#a"}}}`:                                                  "$dynamicRef and $recursiveRef must not be used",

		`{"maximum":1e1000000}`: "schema.maximum: the number 1e1000000 is out of range",
	} {
		if _, err := schema.New([]byte(source)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", source, err, want)
		}
	}
}

// nested returns a schema of depth levels, each of which refers to the next one twice.
func nested(depth int, keyword, innermost string) string {
	var levels []string
	for i := range depth {
		ref := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)
		levels = append(levels, fmt.Sprintf(`"a%d":{%s}`, i, strings.ReplaceAll(keyword, "REF", ref)))
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/a0","$defs":{%s,"a%d":%s}}`, strings.Join(levels, ","), depth, innermost)
}

func TestNewLargeSchemaIsError(t *testing.T) {
	twice := `"properties":{"x":REF,"y":REF},"default":{}`
	for what, source := range map[string]string{
		"allOf":        nested(30, `"allOf":[REF,REF]`, `{"type":"object"}`),
		"anyOf":        nested(30, `"anyOf":[REF,REF]`, `{"type":"object"}`),
		"oneOf":        nested(30, `"oneOf":[REF,REF]`, `{"type":"object"}`),
		"defaults":     nested(30, twice, `{"default":{}}`),
		"long default": nested(9, twice, `{"default":"`+strings.Repeat("x", 10_000)+`"}`),
		"long name":    nested(9, twice, `{"properties":{"`+strings.Repeat("x", 10_000)+`":{"default":1}}}`),
		"enum":         nested(9, `"allOf":[REF,REF]`, `{"enum":[1`+strings.Repeat(",1", 100)+`]}`),
		"required":     nested(9, `"allOf":[REF,REF]`, `{"required":["a0"`+required(100)+`]}`),
	} {
		if _, err := schema.New([]byte(source)); err == nil || !strings.Contains(err.Error(), "the schema is too large") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	s := newSchema(t, nested(5, twice, `{"default":{},"properties":{"z":{"default":1}}}`))
	got, err := s.Apply(nil)
	if n := strings.Count(string(got), `"z":1`); err != nil || n != 1<<5 {
		t.Errorf("got %d defaults and %v, want %d", n, err, 1<<5)
	}
}

func required(n int) string {
	var names strings.Builder
	for i := range n {
		fmt.Fprintf(&names, `,"a%d"`, i+1)
	}
	return names.String()
}

func TestApplyLargeConfigIsError(t *testing.T) {
	s := newSchema(t, nested(10, `"allOf":[REF,REF]`, `true`))
	for n, ok := range map[int]bool{10: true, 10_000: false} {
		_, err := s.Apply([]byte(`{"a":[1` + strings.Repeat(",1", n) + `]}`))
		if ok != (err == nil) || err != nil && err.Error() != "config: too large for the schema of the plugin" {
			t.Errorf("%d values: got %v", n, err)
		}
	}
}

// The validator uses math/big, which panics if a number is too large.
func TestApplyLargeNumberIsError(t *testing.T) {
	for _, keyword := range []string{`"type":"integer"`, `"maximum":5`, `"multipleOf":5`, `"enum":[5]`, `"const":5`} {
		s := newSchema(t, `{"properties":{"n":{"items":{`+keyword+`}}}}`)
		for _, n := range []string{"1e1000000", "1E+99999999999999999999", "-1e-10000000", "1e401", "1" + strings.Repeat("0", 400)} {
			if _, err := s.Apply([]byte(`{"n":[` + n + `]}`)); err == nil || !strings.Contains(err.Error(), "config.n.0: the number") {
				t.Errorf("%s with %s: got %v", n, keyword, err)
			}
		}
		if got, err := s.Apply([]byte(`{"n":[5]}`)); err != nil {
			t.Errorf("5 with %s: got %s, %v", keyword, got, err)
		}
	}
}
