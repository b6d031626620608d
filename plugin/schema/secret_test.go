package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecretsOf(t *testing.T) {
	for _, row := range []struct {
		schema, config string
		want           []string
	}{
		{`{"properties":{"a":{"writeOnly":true},"b":{"format":"password"},"c":{"format":"uri","writeOnly":false},"d":true}}`,
			`{"a":"1","b":"2","c":"3","d":"4","e":"5"}`, []string{"1", "2"}},
		{`{"properties":{"a":{"properties":{"b":{"writeOnly":true},"c":{}}}}}`, `{"a":{"b":"1","c":"2"},"b":"3"}`, []string{"1"}},
		{`{"properties":{"a":{"writeOnly":true}}}`, `{"a":{"b":["1",{"c":2.50,"d":null,"e":true}]}}`, []string{"1", "2.50", "2.5"}},
		{`{"writeOnly":true}`, `{"a":"1"}`, []string{"1"}},
		{`{"patternProperties":{"^x-":{"writeOnly":true}},"properties":{"x-open":{}}}`, `{"x-a":"1","x-open":"2","y":"3"}`, []string{"1", "2"}},
		{`{"properties":{"a":{}},"additionalProperties":{"writeOnly":true}}`, `{"a":"1","b":"2"}`, []string{"2"}},
		{`{"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":{"writeOnly":true}}`, `{"a":"1","b":"2"}`, []string{"2"}},
		{`{"properties":{"l":{"items":{"properties":{"a":{"writeOnly":true}}}}}}`, `{"l":[{"a":"1"},{"b":"2"},{"a":"3"}]}`, []string{"1", "3"}},
		{`{"properties":{"l":{"prefixItems":[{},{"writeOnly":true}],"items":{"type":"string"}}}}`, `{"l":["1","2","3"]}`, []string{"2"}},
		{`{"properties":{"l":{"prefixItems":[{}],"unevaluatedItems":{"writeOnly":true}}}}`, `{"l":["1","2"]}`, []string{"2"}},
		{`{"properties":{"l":{"contains":{"const":"1","writeOnly":true}}}}`, `{"l":["1"]}`, []string{"1"}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"l":{"items":[{}],"additionalItems":{"writeOnly":true}}}}`, `{"l":["1","2"]}`, []string{"2"}},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"l":{"items":{"writeOnly":true}}}}`, `{"l":["1"]}`, []string{"1"}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"b":["a"],"a":{"properties":{"a":{"writeOnly":true}}}}}`, `{"a":"1"}`, []string{"1"}},
		{`{"dependentSchemas":{"a":{"properties":{"a":{"writeOnly":true}}}}}`, `{"a":"1"}`, []string{"1"}},
		{`{"properties":{"a":{"$ref":"#/$defs/x~1y%20z"}},"$defs":{"x/y z":{"writeOnly":true}}}`, `{"a":"1"}`, []string{"1"}},
		{`{"$id":"https://a.example/s","properties":{"a":{"$ref":"b#c"}},"$defs":{"b":{"$id":"b","$defs":{"d":{"$anchor":"c","format":"password"}}}}}`, `{"a":"1"}`, []string{"1"}},
		{`{"oneOf":[{"properties":{"kind":{"const":"x"},"a":{"writeOnly":true}},"required":["kind"]},{"properties":{"kind":{"const":"y"}}}]}`, `{"kind":"x","a":"1"}`, []string{"1"}},
		{`{"if":{"required":["b"]},"then":{"properties":{"a":{"writeOnly":true}}},"else":{"properties":{"c":{"writeOnly":true}}}}`, `{"a":"1","b":"2"}`, []string{"1"}},
		{`{"properties":{"a":{"not":{"format":"password","minLength":9}}}}`, `{"a":"1"}`, nil},
		{`{"properties":{"a":{"writeOnly":true,"default":"public"},"b":{"writeOnly":true,"default":5}}}`, `{"a":"public","b":5}`, nil},
		{`{"properties":{"a":{"writeOnly":true,"default":"public"}}}`, `{"a":"1"}`, []string{"1"}},
		{`{"properties":{"a":{"default":{"b":"1"},"properties":{"b":{"writeOnly":true}}}}}`, `{}`, []string{"1"}},
		{`{"properties":{"a":{"propertyNames":{"format":"password"}}}}`, `{"a":{"1":"open","2":{"3":"open"}}}`, []string{"1", "2"}},
		{`{"properties":{"a":{"allOf":[{"propertyNames":{"anyOf":[{"writeOnly":true}]}}]}}}`, `{"a":{"1":"open"}}`, []string{"1"}},
		{`{"properties":{"a":{"writeOnly":true}}}`, `{"a":1e7}`, []string{"1e7", "10000000", "1e+07"}},
		{`{"properties":{"a":{"writeOnly":true}}}`, `{"a":123456789}`, []string{"123456789", "1.23456789e+08"}},
		{`{"properties":{"a":{"writeOnly":true}}}`, `{"a":0}`, []string{"0"}},
		{`{"properties":{"a":{"const":{"writeOnly":true}},"b":{"default":{"format":"password"}}}}`, `{"a":{"writeOnly":true},"b":{"c":"1"}}`, nil},
	} {
		s := newSchema(t, row.schema)
		config, err := s.Apply([]byte(row.config))
		if err != nil {
			t.Errorf("%s: %v", row.schema, err)
			continue
		}
		if diff := cmp.Diff(row.want, s.SecretsOf(config)); diff != "" {
			t.Errorf("%s in %s (-want +got)\n%s", row.config, row.schema, diff)
		}
	}
}

func TestIsSecret(t *testing.T) {
	s := newSchema(t, `{"properties":{"password":{"writeOnly":true},"open":{"format":"uri"},"auth":{"$ref":"#/$defs/auth"},"tls":{"writeOnly":true}},
		"$defs":{"auth":{"properties":{"user":{}},"additionalProperties":{"format":"password"}}}}`)
	for path, want := range map[string]bool{"password": true, "open": false, "auth": false, "auth.user": false, "auth.token": true, "tls.key": true, "none": false} {
		if got := s.IsSecret(path); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
}

// FuzzSecretsOf puts a schema that marks a secret into others, one for each letter of shape.
func FuzzSecretsOf(f *testing.F) {
	f.Add("fghpaio")
	f.Add("oraxp")
	f.Add("dteplq")
	f.Fuzz(func(t *testing.T, shape string) {
		schema, config, defs := `{"type":"string","writeOnly":true}`, `"hunter2"`, []string(nil)
		for _, letter := range shape[:min(len(shape), 12)] {
			switch letter {
			case 'f':
				schema = strings.Replace(schema, `"writeOnly":true`, `"format":"password"`, 1)
			case 'p':
				schema, config = `{"properties":{"open":{},"a":`+schema+`}}`, `{"open":"open","a":`+config+`}`
			case 'x':
				schema, config = `{"patternProperties":{"^a":`+schema+`}}`, `{"open":"open","ab":`+config+`}`
			case 'd':
				schema, config = `{"properties":{"open":{}},"additionalProperties":`+schema+`}`, `{"open":"open","a":`+config+`}`
			case 'u':
				schema, config = `{"properties":{"open":{}},"unevaluatedProperties":`+schema+`}`, `{"open":"open","a":`+config+`}`
			case 'i':
				schema, config = `{"items":`+schema+`}`, `[`+config+`,`+config+`]`
			case 'l':
				schema, config = `{"prefixItems":[{},`+schema+`]}`, `["open",`+config+`,"open"]`
			case 'q':
				schema, config = `{"prefixItems":[{}],"items":`+schema+`}`, `["open",`+config+`]`
			case 'a':
				schema = `{"allOf":[{},` + schema + `]}`
			case 'o':
				schema = `{"oneOf":[false,` + schema + `]}`
			case 'e':
				schema = `{"anyOf":[{},` + schema + `]}`
			case 't':
				schema = `{"if":true,"then":` + schema + `}`
			case 'r':
				defs = append(defs, fmt.Sprintf(`"%d":%s`, len(defs), schema))
				schema = fmt.Sprintf(`{"$ref":"#/properties/config/$defs/%d"}`, len(defs)-1)
			}
		}
		s := newSchema(t, fmt.Sprintf(`{"properties":{"config":{"$defs":{%s},"allOf":[%s]}}}`, strings.Join(defs, ","), schema))
		applied, err := s.Apply([]byte(`{"config":` + config + `}`))
		if err != nil {
			t.Fatal(err)
		}
		got := s.SecretsOf(applied)
		for _, value := range got {
			if value != "hunter2" {
				t.Errorf("%q is no secret by %s", value, s.JSON())
			}
		}
		if want := strings.Count(config, "hunter2"); len(got) != want {
			t.Errorf("got %d secrets, want %d of %s by %s", len(got), want, applied, s.JSON())
		}
	})
}
