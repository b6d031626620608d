package compat_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/semantic"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/compat"
	"github.com/daeace23/prober/plugin/schema"
)

// lines returns changes as lines of "LEVEL FIELD: message".
func lines(changes []compat.Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%s %s\n", c.Level, c)
	}
	return b.String()
}

func parse(t *testing.T, text string) *schema.Schema {
	t.Helper()
	if text == "" {
		return &schema.Schema{}
	}
	s, err := schema.New([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func TestSchemas(t *testing.T) {
	for _, tc := range []struct{ name, old, next, want string }{
		{"same", `{"properties":{"a":{"type":"string"}}}`, `{"properties":{"a":{"type":"string"}}}`, ""},
		{"annotations", `{"properties":{"a":{"description":"x"}}}`, `{"title":"t","properties":{"a":{"description":"y"}}}`, ""},
		{"number spelled differently", `{"properties":{"a":{"minimum":1}}}`, `{"properties":{"a":{"minimum":1.0}}}`, ""},
		{"reference in place of its target", `{"properties":{"a":{"type":"string"}}}`, `{"$defs":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s"}}}`, "minor config.a: accepts more\n"},
		{"new optional field", `{"properties":{},"additionalProperties":false}`, `{"properties":{"a":{"type":"string"}},"additionalProperties":false}`, "minor config.a: is new\n"},
		{"new required field", `{}`, `{"properties":{"a":{"type":"string"}},"required":["a"]}`, "major config.a: is required, and has no default\n"},
		{"new required field with default", `{}`, `{"properties":{"a":{"default":"x"}},"required":["a"]}`, "minor config.a: is new, with a default\n"},
		{"removed default of required field", `{"properties":{"a":{"default":"x"}},"required":["a"]}`, `{"properties":{"a":{}},"required":["a"]}`, "minor config.a: the default is null in place of \"x\"\nmajor config.a: is required, and its default was removed\n"},
		{"default that the schema refuses", `{"properties":{"a":{}}}`, `{"properties":{"a":{"default":5,"maximum":3}}}`, "major config.a: maximum is 3\nmajor config.a: does not accept its default 5\nminor config.a: the default is 5 in place of null\n"},
		{"default under a rule", `{"properties":{"a":{}},"not":{"required":["a","b"]}}`, `{"properties":{"a":{"default":1}},"not":{"required":["a","b"]}}`, "major config.a: the default was changed, and not may depend on it\n"},
		{"removed field", `{"properties":{"a":{},"b":{}}}`, `{"properties":{"b":{}}}`, "major config.a: was removed\n"},
		{"removed forbidden field", `{"properties":{"a":false,"b":{}}}`, `{"properties":{"b":{}}}`, "minor config: accepts more\n"},
		{"narrowed type", `{"properties":{"a":{"type":["string","integer"]}}}`, `{"properties":{"a":{"type":"string"}}}`, "major config.a: has the type \"string\" in place of integer or string\n"},
		{"number to integer", `{"properties":{"a":{"type":"number"}}}`, `{"properties":{"a":{"type":"integer"}}}`, "major config.a: has the type \"integer\" in place of number\n"},
		{"integer to number", `{"properties":{"a":{"type":"integer"}}}`, `{"properties":{"a":{"type":"number"}}}`, "minor config.a: accepts more\n"},
		{"narrowed enum", `{"properties":{"a":{"enum":["x","y"]}}}`, `{"properties":{"a":{"enum":["x","z"]}}}`, "major config.a: does not accept \"y\"\nminor config.a: also accepts \"z\"\n"},
		{"enum of any value", `{"properties":{"a":{"type":"string"}}}`, `{"properties":{"a":{"type":"string","enum":["x"]}}}`, "major config.a: only accepts [\"x\"]\n"},
		{"enum to pattern", `{"properties":{"a":{"enum":["x1","x2"]}}}`, `{"properties":{"a":{"pattern":"^x"}}}`, "minor config.a: accepts more\n"},
		{"null constant", `{"properties":{"a":{}}}`, `{"properties":{"a":{"const":null}}}`, "major config.a: only accepts null\n"},
		{"raised minimum", `{"properties":{"a":{"minimum":1,"maximum":9}}}`, `{"properties":{"a":{"minimum":2,"maximum":10}}}`, "major config.a: minimum is 2\n"},
		{"exclusive bound", `{"properties":{"a":{"exclusiveMinimum":1}}}`, `{"properties":{"a":{"minimum":1}}}`, "minor config.a: accepts more\n"},
		{"bound becomes exclusive", `{"properties":{"a":{"minimum":1}}}`, `{"properties":{"a":{"exclusiveMinimum":1}}}`, "major config.a: exclusiveMinimum is 1\n"},
		{"bound of another type", `{"properties":{"a":{"type":"string"}}}`, `{"properties":{"a":{"type":"string","minimum":1}}}`, "minor config.a: accepts more\n"},
		{"multiple", `{"properties":{"a":{"multipleOf":4}}}`, `{"properties":{"a":{"multipleOf":2}}}`, "minor config.a: accepts more\n"},
		{"coarser multiple", `{"properties":{"a":{"multipleOf":2}}}`, `{"properties":{"a":{"multipleOf":4}}}`, "major config.a: multipleOf is 4\n"},
		{"closed", `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"additionalProperties":false}`, "major config: refuses unknown fields (additionalProperties: false)\n"},
		{"opened", `{"properties":{"a":{}},"additionalProperties":false}`, `{"properties":{"a":{}}}`, "minor config: accepts more\n"},
		{"map gets a field", `{"additionalProperties":{"type":"string"}}`, `{"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}}`, "major config.a: has the type \"integer\" in place of string\n"},
		{"field that a rule knew", `{"anyOf":[{"properties":{"a":{"type":"integer"}}}]}`, `{"anyOf":[{"properties":{"a":{"type":"integer"}}}],"properties":{"a":{"type":"string"}}}`, "major config.a: has the type \"string\" in place of any\n"},
		{"second schema by pattern", `{"properties":{"a":{"properties":{}}},"patternProperties":{"^a":{"properties":{"b":{}}}}}`, `{"properties":{"a":{"properties":{}}},"patternProperties":{"^a":{"properties":{"b":{"default":1}},"required":["b"]}}}`, "major config.a: has a second schema by its pattern or as an additional property, which cannot be compared\nmajor config: patternProperties was changed\n"},
		{"alternative added", `{"properties":{"a":{"anyOf":[{"type":"string"}]}}}`, `{"properties":{"a":{"anyOf":[{"type":"integer"},{"type":"string"}]}}}`, "minor config.a: accepts more\n"},
		{"alternative removed", `{"properties":{"a":{"anyOf":[{"type":"integer"},{"type":"string"}]}}}`, `{"properties":{"a":{"anyOf":[{"type":"string"}]}}}`, "major config.a: anyOf was added or narrowed\n"},
		{"alternative with an open object", `{"properties":{"a":{"type":"object"}}}`, `{"properties":{"a":{"anyOf":[{"properties":{"b":{"type":"string"}}}]}}}`, "major config.a: anyOf was added or narrowed\n"},
		{"longer tuple", `{"properties":{"a":{"prefixItems":[{"type":"integer"}],"items":{"type":"string"}}}}`, `{"properties":{"a":{"items":{"type":"string"}}}}`, "major config.a[0]: has the type \"string\" in place of integer\n"},
		{"items", `{"properties":{"a":{"items":{"maxLength":5}}}}`, `{"properties":{"a":{"items":{"maxLength":4}}}}`, "major config.a[]: maxLength is 4\n"},
		{"oneOf", `{"oneOf":[{"required":["a"]}]}`, `{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, "major config: oneOf was added or changed\n"},
		{"field called config in an alternative", `{"anyOf":[{"properties":{"config":{"type":"string"}}}]}`, `{"anyOf":[{"properties":{"config":{"type":"integer"}}}]}`, "major config: anyOf was added or narrowed\n"},
		{"bound of config in an alternative", `{"properties":{"a":{"anyOf":[{"properties":{"config":{"maximum":5}}}]}}}`, `{"properties":{"a":{"anyOf":[{"properties":{"config":{"maximum":4}}}]}}}`, "major config.a: anyOf was added or narrowed\n"},
		{"null default in place of the target's", `{"$defs":{"d":{"default":3}},"properties":{"a":{"$ref":"#/$defs/d"}},"required":["a"]}`, `{"$defs":{"d":{"default":3}},"properties":{"a":{"$ref":"#/$defs/d","default":null}},"required":["a"]}`, "minor config.a: the default is null in place of 3\nmajor config.a: is required, and its default was removed\n"},
		{"null default in the target", `{"$defs":{"d":{"default":3},"n":{"$ref":"#/$defs/d"}},"properties":{"a":{"$ref":"#/$defs/n"}},"required":["a"]}`, `{"$defs":{"d":{"default":3},"n":{"default":null,"$ref":"#/$defs/d"}},"properties":{"a":{"$ref":"#/$defs/n"}},"required":["a"]}`, "minor config.a: the default is null in place of 3\nmajor config.a: is required, and its default was removed\n"},
		{"format added", `{"properties":{"a":{"type":"string"}}}`, `{"properties":{"a":{"type":"string","format":"email"}}}`, "minor config.a: format \"email\" was added; hosts do not check it\n"},
		{"format changed within oneOf", `{"oneOf":[{"properties":{"a":{"format":"uri"}}}]}`, `{"oneOf":[{"properties":{"a":{"format":"email"}}}]}`, "minor config.a: format \"email\" was added; hosts do not check it\nminor config.a: format \"uri\" was removed; hosts did not check it\n"},
		{"format of a map", `{"patternProperties":{"^a":{"format":"uri"}}}`, `{"patternProperties":{"^a":{}}}`, "minor config.*: format \"uri\" was removed; hosts did not check it\n"},
		{"field called format", `{"properties":{"format":{"type":"string"}}}`, `{"properties":{"format":{"type":"integer"}}}`, "major config.format: has the type \"integer\" in place of string\n"},
		{"secret", `{"properties":{"a":{"items":{"type":"string"}}}}`, `{"properties":{"a":{"items":{"type":"string","writeOnly":true}}}}`, "minor config.a[]: writeOnly true was added; hosts do not check it\n"},
		{"secret in an enum", `{"properties":{"a":{"enum":["x"],"writeOnly":true}}}`, `{"properties":{"a":{"enum":["x"],"writeOnly":false}}}`, "minor config.a: writeOnly true was removed; hosts did not check it\n"},
		{"format of a new field", `{}`, `{"properties":{"a":{"format":"email"}}}`, "minor config.a: is new\n"},
		{"dependent field", `{}`, `{"dependentRequired":{"a":["b"]}}`, "major config.b: is required with a\n"},
		{"anchor", `{}`, `{"$defs":{"s":{"$anchor":"x"}},"properties":{"a":{"$ref":"#x"}}}`, "major config: the new schema has the $ref \"#x\", which cannot be compared\n"},
		{"other dialect", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{}}}`, `{"properties":{"a":{}}}`, "major config: the old schema is of the dialect \"http://json-schema.org/draft-07/schema#\", which cannot be compared\n"},
		{"same in another dialect", `{"$schema":"http://json-schema.org/draft-07/schema#"}`, `{"$schema":"http://json-schema.org/draft-07/schema#"}`, ""},
		{"schema added", "", `{"properties":{"a":{}},"additionalProperties":false}`, "minor config.a: is new\nmajor config: refuses unknown fields (additionalProperties: false)\n"},
		{"schema removed", `{"additionalProperties":false}`, "", "minor config: accepts more\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := lines(compat.Schemas(parse(t, tc.old), parse(t, tc.next))); got != tc.want {
				t.Errorf("got:\n%swant:\n%s", got, tc.want)
			}
		})
	}
}

// anyOf returns a schema whose field a has n alternatives.
func anyOf(n int, alternative func(i int) string) string {
	var all []string
	for i := range n {
		all = append(all, alternative(i))
	}
	return `{"properties":{"a":{"anyOf":[` + strings.Join(all, ",") + `]}}}`
}

// integers returns n integers as JSON, from the given one.
func integers(from, n int) string {
	var all []string
	for i := range n {
		all = append(all, strconv.Itoa(from+i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

func TestSchemasLarge(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	enums := func(i int) string { return `{"enum":` + integers(3*i, 3) + `}` }
	deep := func(leaf string) string {
		for i := range 10 {
			leaf = fmt.Sprintf(`{"anyOf":[%s,%s],"minLength":%d}`, leaf, leaf, i)
		}
		return `{"properties":{"a":` + leaf + `}}`
	}
	names := func(limit int) string {
		var properties, patterns []string
		for i := range 300 {
			properties = append(properties, fmt.Sprintf(`"x%dy":{}`, i))
			patterns = append(patterns, fmt.Sprintf(`"^(a|b|x)*%d[0-9]+z":{"maximum":%d}`, i, limit))
		}
		return `{"properties":{` + strings.Join(properties, ",") + `},"patternProperties":{` + strings.Join(patterns, ",") + `}}`
	}
	for _, tc := range []struct{ name, old, next, want string }{
		{"enum in an alternative", anyOf(1, func(int) string { return `{"enum":` + integers(0, 6000) + `}` }), anyOf(1, func(int) string { return `{"enum":[1]}` }), "major config.a: anyOf was added or narrowed\n"},
		{"enum", `{"properties":{"a":{"enum":` + integers(0, 6000) + `}}}`, `{"properties":{"a":{"enum":` + integers(1, 5999) + `}}}`, "major config.a: does not accept 0\n"},
		{"value that hosts refuse for its size", `{"properties":{"a":{"enum":["` + long + `"],"not":{"enum":` + integers(0, 6000) + `}}}}`, `{"properties":{"a":{"enum":["y"],"not":{"enum":` + integers(0, 6000) + `}}}}`,
			"minor config.a: also accepts \"y\"\nmajor config.a: cannot be compared: config: too large for the schema of the plugin\n"},
		{"the same value in an alternative", anyOf(1, func(int) string { return `{"enum":["` + long + `"],"not":{"enum":` + integers(0, 4000) + `}}` }), anyOf(1, func(int) string { return `{"enum":["y"]}` }),
			"major config.a: anyOf cannot be compared: config: too large for the schema of the plugin\n"},
		{"many alternatives", anyOf(140, enums), anyOf(140, func(i int) string { return enums(139 - i) }), "minor config.a: accepts more\n"},
		{"many narrowed alternatives", anyOf(140, enums), anyOf(140, func(i int) string { return `{"enum":` + integers(3*i+1, 3) + `}` }), "major config.a: anyOf was added or narrowed\n"},
		{"nested alternatives", deep(`{"maximum":2}`), deep(`{"maximum":1}`), "major config.a: is too large to be compared\n"},
		{"names and patterns", names(1), names(2), "major config: patternProperties was changed\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old, next := parse(t, tc.old), parse(t, tc.next)
			if got := lines(compat.Schemas(old, next)); got != tc.want {
				t.Errorf("got:\n%.2000swant:\n%s", got, tc.want)
			}
		})
	}
}

func manifest(t *testing.T, rest string) compat.Side {
	t.Helper()
	m, err := plugin.ParseManifest("plugin.yaml", []byte("apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n"+rest))
	if err != nil {
		t.Fatal(err)
	}
	return compat.Side{Manifest: m}
}

func TestCompare(t *testing.T) {
	for _, tc := range []struct{ name, old, next, want string }{
		{"nothing", "", "description: other\nlicense: MIT\n", ""},
		{"mode", "", "mode: command\n", "minor mode: is \"command\" in place of \"reactor\"\n"},
		{"errorPolicy", "", "errorPolicy: failure\n", "major errorPolicy: is \"failure\" in place of \"error\"\n"},
		{"errorPolicy back", "errorPolicy: failure\n", "", "minor errorPolicy: is \"error\" in place of \"failure\"\n"},
		{"limits", "", "limits: {memory: 64Mi}\n", "minor limits.memory: is 64Mi in place of 32Mi\n"},
		{"metrics", "metrics: [{name: a, unit: seconds}, {name: b, unit: bytes, help: h}, {name: c}]\n", "metrics: [{name: a, unit: bytes}, {name: d, unit: bytes, help: h}, {name: e}]\n",
			"major metrics.a: the unit is \"bytes\" in place of \"seconds\"\nmajor metrics.b: was renamed to d\nmajor metrics.c: was removed\nminor metrics.e: is new\n"},
		{"target needs no grant", "", "requests: [{capability: net}]\n", "minor requests.net: is requested\n"},
		{"new pattern", "requests: [{capability: net}]\n", "requests: [{capability: net, allow: ['tcp://*:53']}]\n", "major requests.net: tcp://*:53 is requested\n"},
		{"new capability", "", "requests: [{capability: kv}]\n", "major requests.kv: is requested\n"},
		{"new optional capability", "", "requests: [{capability: kv, optional: true}]\n", "minor requests.kv: is requested\n"},
		{"required capability", "requests: [{capability: kv, optional: true}]\n", "requests: [{capability: kv}]\n", "major requests.kv: is not optional\n"},
		{"narrower pattern", "requests: [{capability: dns}]\n", "requests: [{capability: dns, allow: ['dns://example.com']}]\n", ""},
		{"dropped capability", "requests: [{capability: kv}]\n", "", "patch requests.kv: is not requested anymore\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := lines(compat.Compare(manifest(t, tc.old), manifest(t, tc.next))); got != tc.want {
				t.Errorf("got:\n%swant:\n%s", got, tc.want)
			}
		})
	}
	old, next := manifest(t, ""), manifest(t, "")
	old.Imports, next.Imports = map[string][]string{"prober_v1": {"log"}}, map[string][]string{"prober_v1": {"log", "message"}}
	if got := lines(compat.Compare(old, next)); got != "minor prober_v1.message: is imported\n" {
		t.Error(got)
	}
}

func TestJudge(t *testing.T) {
	breaking, addition := []compat.Change{{Level: semantic.Minor}, {Level: semantic.Major}}, []compat.Change{{Level: semantic.Minor}}
	for _, tc := range []struct {
		from, to  string
		changes   []compat.Change
		err, hint string
	}{
		{"1.2.0", "2.0.0", breaking, "", ""},
		{"1.2.0", "1.3.0", breaking, "breaking changes from 1.2.0 to 1.3.0 need 2.0.0", ""},
		{"1.2.0", "1.2.0", breaking, "breaking changes from 1.2.0 to 1.2.0 need 2.0.0", ""},
		{"0.2.0", "0.2.1", breaking, "breaking changes from 0.2.0 to 0.2.1 need 0.3.0", ""},
		{"0.2.0", "0.3.0", breaking, "", ""},
		{"dev", "1.0.0", breaking, `breaking changes from "dev" to "1.0.0", of which one is not a semantic version`, ""},
		{"1.2.0", "1.2.1", addition, "", "additions since 1.2.0 suggest 1.3.0"},
		{"0.2.0", "0.2.1", addition, "", ""},
		{"1.2.0", "1.3.0", addition, "", ""},
		{"1.2.0", "1.2.1", nil, "", ""},
	} {
		v := compat.Judge(tc.from, tc.to, tc.changes)
		got := ""
		if err := v.Err(); err != nil {
			got = err.Error()
		}
		if got != tc.err || v.Hint() != tc.hint {
			t.Errorf("%s to %s: %q, %q", tc.from, tc.to, got, v.Hint())
		}
	}
}
