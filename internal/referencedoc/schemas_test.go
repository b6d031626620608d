package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	v1 "k8s.io/api/core/v1"
	fieldpath "k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/docs"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/probe"
)

func TestSchemasAreCurrent(t *testing.T) {
	want, err := schemas("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range docs.SchemaNames() {
		got, err := docs.Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[name+".json"], string(got)); diff != "" {
			t.Errorf("docs/schemas/%s.json is not current: run `make docs` (-want +got)\n%s", name, diff)
		}
	}
	if names := slices.Sorted(maps.Keys(want)); len(names) != len(docs.SchemaNames()) {
		t.Errorf("schemas are %q, docs has %q", names, docs.SchemaNames())
	}
}

// reader is a kind of files with a schema, and what reads it.
type reader struct {
	name   string // of the schema
	head   map[string]any
	decode func(t *testing.T, document any) error // the errors are joined
	schema *jsonschema.Schema
	tree   map[string]any // the schema as JSON
}

// readers returns the kinds of files by the names of their schemas.
func readers(t *testing.T) map[string]*reader {
	t.Helper()
	dir := t.TempDir()
	all := map[string]*reader{
		docs.SchemaOfConfig: {head: map[string]any{"apiVersion": config.APIVersion, "kind": config.Kind}, decode: decodeConfig},
		docs.SchemaOfPlugin: {head: map[string]any{"apiVersion": plugin.APIVersion, "kind": "Plugin"}, decode: func(t *testing.T, document any) error {
			_, err := plugin.ParseManifest("plugin.yaml", asJSON(t, document))
			return err
		}},
		docs.SchemaOfTest: {head: map[string]any{"apiVersion": plugin.APIVersion, "kind": "PluginTest"}, decode: func(t *testing.T, document any) error {
			path := filepath.Join(dir, "file")
			if err := os.WriteFile(path, asJSON(t, document), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := plugintest.Load(path)
			return err
		}},
		docs.SchemaOfAnnotation: {decode: decodeAnnotation},
	}
	for name, r := range all {
		text, err := docs.Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &r.tree); err != nil {
			t.Fatal(err)
		}
		parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		c := jsonschema.NewCompiler()
		if err == nil {
			err = c.AddResource(docs.SchemaURL(name), parsed)
		}
		if err == nil {
			r.schema, err = c.Compile(docs.SchemaURL(name))
		}
		if r.name = name; err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func asJSON(t *testing.T, document any) []byte {
	t.Helper()
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // YAML does not have its escapes
	if err := e.Encode(document); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// decodeConfig reads prober.yaml, and the probes in it as package pods/targets reads them.
func decodeConfig(t *testing.T, document any) error {
	t.Helper()
	a, err := config.Parse("prober.yaml", asJSON(t, document))
	if err != nil {
		return err
	}
	var errs []error
	add := func(p *config.Probe, kind probe.Kind) {
		if p != nil {
			_, list := declared.ParseTemplate(fieldpath.NewPath("probe"), "target", kind, p.JSON)
			errs = append(errs, list.ToAggregate())
		}
	}
	for i := range a.Modules {
		add(&a.Modules[i].Probe, probe.Readiness)
	}
	for i := range a.Targets {
		add(a.Targets[i].Probe, a.Targets[i].Kind)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeAnnotation reads the annotation of a pod that has all containers and ports.
func decodeAnnotation(t *testing.T, document any) error {
	t.Helper()
	text := asJSON(t, document)
	pod := v1.Pod{}
	pod.Annotations = map[string]string{declared.Annotation: string(text)}
	var ports []v1.ContainerPort
	for _, m := range regexp.MustCompile(`"port":"([^"]+)"`).FindAllSubmatch(text, -1) {
		if name := string(m[1]); name != odd {
			ports = append(ports, v1.ContainerPort{Name: name, ContainerPort: 80})
		}
	}
	containers, _ := document.(map[string]any)
	for name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Ports: ports})
	}
	_, errs := declared.ProbesOf(&pod)
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// visit calls f with each part of a schema, and the path of its values. A name of a map is "*", an item is "[]".
// References are followed.
func (r *reader) visit(schema map[string]any, path []string, f func(part map[string]any, path []string)) {
	if ref, ok := schema["$ref"].(string); ok {
		definitions := r.tree["$defs"].(map[string]any)
		schema = definitions[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	if alternatives, ok := schema["anyOf"].([]any); ok {
		for _, a := range alternatives {
			r.visit(a.(map[string]any), path, f)
		}
		return
	}
	f(schema, path)
	fields, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		r.visit(fields[name].(map[string]any), append(slices.Clone(path), name), f)
	}
	if others, ok := schema["additionalProperties"].(map[string]any); ok {
		r.visit(others, append(slices.Clone(path), "*"), f)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		r.visit(items, append(slices.Clone(path), "[]"), f)
	}
}

// unknown is the name of a field that no mapping has.
const unknown = "no_such"

// probed returns a document with value at a path.
func (r *reader) probed(path []string, value any) any {
	for _, step := range slices.Backward(path) {
		switch step {
		case "*":
			value = map[string]any{"name": value}
		case "[]":
			value = []any{value}
		default:
			value = map[string]any{step: value}
		}
	}
	if document, ok := value.(map[string]any); ok {
		maps.Copy(document, r.head)
	}
	return value
}

// TestSchemasHaveEveryField puts an unknown field at each place of a schema. Errors of the readers list the fields
// that they know there: these must be the schema's.
func TestSchemasHaveEveryField(t *testing.T) {
	for name, r := range readers(t) {
		if name == docs.SchemaOfAnnotation {
			continue // its errors list no fields; TestAnnotationHasEveryField reads them from the source
		}
		objects := 0
		mapping := make(map[string]bool) // paths of mappings with fixed fields, in the schema
		r.visit(r.tree, nil, func(part map[string]any, path []string) {
			if _, ok := part["properties"]; ok {
				mapping[strings.Join(path, ".")] = true
			}
		})
		r.visit(r.tree, nil, func(part map[string]any, path []string) {
			at := strings.Join(path, ".")
			if strings.HasSuffix(at, ".probe") || strings.Contains(at, ".probe.") {
				return // of targets: the definition is the annotation's, with fewer fields
			}
			known, ok := fieldsAt(r.decode(t, r.probed(path, map[string]any{unknown: 1})))
			var want []string
			if fields, is := part["properties"].(map[string]any); is {
				objects++
				want = slices.Sorted(maps.Keys(fields))
			} else if mapping[at] {
				return // another alternative is the mapping
			}
			if _, is := part["type"]; !is && part["enum"] == nil {
				return // any value
			}
			if ok != (want != nil) && part["additionalProperties"] != false {
				t.Errorf("%s: %s: the schema has the fields %q, the reader %q", name, at, want, known)
			}
			if diff := cmp.Diff(want, known); diff != "" && want != nil {
				t.Errorf("%s: %s (-schema +reader)\n%s", name, at, diff)
			}
		})
		if objects < 8 {
			t.Errorf("%s has %d mappings", name, objects)
		}
	}
}

// fieldsAt returns the fields that an error about an unknown field lists; ok is false without such an error.
func fieldsAt(err error) (known []string, ok bool) {
	for _, one := range joined.Errors(err) {
		if _, list, found := strings.Cut(fmt.Sprint(one), unknown+": unknown field; known: "); found {
			list, _, _ = strings.Cut(list, " (did you")
			return strings.Split(list, ", "), true
		}
	}
	return nil, false
}

// TestAnnotationSchemaHasEveryField compares the definition of a probe with the page of the annotation, which
// TestAnnotationHasEveryField compares with the parser.
func TestAnnotationSchemaHasEveryField(t *testing.T) {
	definitions := readers(t)[docs.SchemaOfAnnotation].tree["$defs"].(map[string]any)
	fields := func(schema any) map[string]any {
		all, _ := schema.(map[string]any)["properties"].(map[string]any)
		return all
	}
	var want, got []string
	for _, f := range probeFields {
		want = append(want, f.path)
	}
	var add func(prefix string, schema any)
	add = func(prefix string, schema any) {
		for name, f := range fields(schema) {
			if fields(f) == nil {
				got = append(got, prefix+name)
			}
			add(prefix+name+".", f)
		}
	}
	add("", definitions["probe"])
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-page +schema\n%s", diff)
	}
	target := readers(t)[docs.SchemaOfConfig].tree["$defs"].(map[string]any)[config.ProbeDefinition]
	for _, several := range []string{"all", "any", "atLeast"} {
		if fields(target)[several] != nil {
			t.Errorf("a probe of targets has %s", several)
		}
	}
}

// parsed returns the documents of a YAML text as JSON values; nil if it is not YAML.
func parsed(text []byte) (documents []any) {
	d := yamlpos.Decoder{}
	for root := range d.All(text, len(text)) {
		var one []byte
		d.JSON(&one)(root, "")
		var value any
		if d.Err() != nil || json.Unmarshal(one, &value) != nil {
			return nil
		}
		documents = append(documents, value)
	}
	if d.Err() != nil {
		return nil
	}
	return documents
}
