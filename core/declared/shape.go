package declared

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/probe"
)

// The names of definitions in [AnnotationSchema].
const (
	probeDefinition  = "probe"
	checkDefinition  = "check"
	weighedCheck     = "weighedCheck"
	targetDefinition = "targetProbe" // the probe of a [Template]
)

// AnnotationSchema returns a JSON Schema (2020-12) of [Annotation] for editors. It is made of the Go types that are
// decoded; rules about several fields are not in it. Its definition "targetProbe" is the probe that [ParseTemplate]
// accepts. describe returns the description of a field of a probe by its path, such as "plugin.name", or "".
func AnnotationSchema(describe func(path string) string) ([]byte, error) {
	definitions := make(map[string]*shape.Shape)
	with := func(t reflect.Type) *shape.Shape {
		s := shapeOf(t)
		for i := range builtins {
			b := &builtins[i]
			definitions[b.Field] = shapeOf(reflect.TypeOf(b.config()))
			s.Object.Fields[b.Field] = &shape.Shape{Ref: b.Field}
		}
		return s
	}
	full, target := with(reflect.TypeFor[annotationProbe]()), with(reflect.TypeFor[annotationProbe]())
	check, weighed := with(reflect.TypeFor[annotationCheck]()), with(reflect.TypeFor[annotationCheck]())
	delete(check.Object.Fields, "weight") // of atLeast only
	for name := range shapeOf(reflect.TypeFor[severalChecks]()).Object.Fields {
		delete(target.Object.Fields, name)
	}
	full.Object.Fields["atLeast"].Object.Fields["of"].Object.Others = &shape.Shape{Ref: weighedCheck}
	maps.Copy(definitions, map[string]*shape.Shape{probeDefinition: full, targetDefinition: target, checkDefinition: check, weighedCheck: weighed})
	kinds := make(map[string]*shape.Shape, len(probe.Kinds))
	for _, kind := range probe.Kinds {
		kinds[kind.String()] = &shape.Shape{Ref: probeDefinition}
	}
	for _, name := range []string{probeDefinition, targetDefinition, checkDefinition, weighedCheck} {
		definitions[name].Describe("", describe)
	}
	all := make(map[string]any, len(definitions))
	for name, d := range definitions {
		all[name] = d.Schema()
	}
	schema := mapOf(&shape.Shape{Object: &shape.Object{Fields: kinds}}).Schema()
	schema["$defs"] = all
	return shape.Encode(schema)
}

// HandlerFields returns the fields of a probe in [Annotation] of which one is set: handlers, and the ones that combine
// several checks. They are sorted.
func HandlerFields() []string {
	names := append(builtinNames(), "plugin")
	for name := range shapeOf(reflect.TypeFor[severalChecks]()).Object.Fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func mapOf(values *shape.Shape) *shape.Shape {
	return &shape.Shape{Object: &shape.Object{Others: values}}
}

// shapeOf returns the shape of a Go type that is decoded from JSON.
func shapeOf(t reflect.Type) *shape.Shape {
	scalar := func(form shape.Form, types ...string) *shape.Shape {
		form.Types = types
		return &shape.Shape{Scalar: &shape.Scalar{Form: form}}
	}
	switch t {
	case reflect.TypeFor[durationText]():
		return scalar(shape.Form{Pattern: shape.Duration().Pattern}, "string")
	case reflect.TypeFor[intstr.IntOrString]():
		return scalar(shape.Form{Least: new(0), Most: new(1<<16 - 1)}, "integer", "string")
	case reflect.TypeFor[json.RawMessage](): // the config of a plugin; of all and any it is a check
		return mapOf(&shape.Shape{Any: true})
	case reflect.TypeFor[map[string]json.RawMessage]():
		return mapOf(&shape.Shape{Ref: checkDefinition})
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem())
	case reflect.Struct:
		o := &shape.Object{Fields: make(map[string]*shape.Shape)}
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				s := shapeOf(f.Type)
				if s.Scalar != nil {
					s.Scalar.Add(shape.Form{Enum: choices(name)})
				}
				o.Fields[name] = s
			}
		}
		return &shape.Shape{Object: o}
	case reflect.Slice:
		return &shape.Shape{List: &shape.List{Items: shapeOf(t.Elem())}}
	case reflect.Bool:
		return scalar(shape.Form{}, "boolean")
	case reflect.String:
		return scalar(shape.Form{}, "string")
	default:
		return scalar(shape.Form{Least: new(0)}, "integer") // no number may be negative
	}
}
