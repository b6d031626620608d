package manager

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// decodeStrict decodes raw into into, a pointer to a struct. Its errors name the path
// of the field at fault: one that does not exist, in this very spelling, or one whose
// value its type can not take.
func decodeStrict(raw json.RawMessage, into any, path *field.Path) field.ErrorList {
	var document any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		return field.ErrorList{decodeError(path, err)}
	}
	if errs := checkFields(document, reflect.TypeOf(into).Elem(), path); len(errs) > 0 {
		return errs
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return field.ErrorList{decodeError(path, err)}
	}
	return nil
}

// checkFields holds a decoded document against the type that it is meant for.
func checkFields(v any, t reflect.Type, path *field.Path) (errs field.ErrorList) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, ok := reflect.New(t).Interface().(json.Unmarshaler); ok {
		return checkValue(v, t, path)
	}
	switch v := v.(type) {
	case []any:
		if t.Kind() == reflect.Slice {
			for i := range v {
				errs = append(errs, checkFields(v[i], t.Elem(), path.Index(i))...)
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return nil
		}
		fields := jsonFields(t)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if f, ok := fields[name]; ok {
				errs = append(errs, checkFields(v[name], f, path.Child(name))...)
			} else {
				errs = append(errs, field.Invalid(path.Child(name), field.OmitValueType{}, "unknown field"))
			}
		}
	}
	return errs
}

// checkValue lets a type that decodes itself try: its error does not say where it was.
func checkValue(v any, t reflect.Type, path *field.Path) field.ErrorList {
	raw, err := json.Marshal(v)
	if err == nil && v != nil {
		err = json.Unmarshal(raw, reflect.New(t).Interface())
	}
	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, jsonReason(err))}
	}
	return nil
}

// jsonFields returns the types of t's fields by their names in JSON.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}
