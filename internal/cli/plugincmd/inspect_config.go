package plugincmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/daeace23/prober/internal/explain"
)

// configSchema is the printed part of a JSON schema.
type configSchema struct {
	Type        any                      `json:"type"` // a name, or a list of names
	Description string                   `json:"description"`
	Default     json.RawMessage          `json:"default"`
	Enum        []json.RawMessage        `json:"enum"`
	Required    []string                 `json:"required"`
	Properties  map[string]*configSchema `json:"properties"`
	Items       *configSchema            `json:"items"`
}

// maxConfigDepth is the maximum depth of printed config fields.
const maxConfigDepth = 4

// printConfig writes a row for each field of a plugin's config. It writes nothing if the schema has no
// properties, or does not decode into configSchema. -o json prints the complete schema.
func printConfig(to io.Writer, schema json.RawMessage) error {
	var root configSchema
	if json.Unmarshal(schema, &root) != nil || len(root.Properties) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "Config:")
	for _, f := range root.fields(nil, "", maxConfigDepth) {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", explain.OneLine(f.path), explain.OneLine(f.kind), explain.OneLine(f.notes(true)))
	}
	return w.Flush()
}

// configField is a printed field of a config.
type configField struct {
	path, kind, description string
	values                  []string // if only these are valid
	value                   string   // the default as JSON, or ""
	required                bool
}

// notes returns remarks on the field besides its type. withDefault includes the default.
func (f configField) notes(withDefault bool) string {
	var notes []string
	if f.description != "" {
		notes = append(notes, f.description)
	}
	if len(f.values) > 0 {
		notes = append(notes, "One of "+strings.Join(f.values, ", ")+".")
	}
	if withDefault && f.value != "" {
		notes = append(notes, "Default "+f.value+".")
	}
	if f.required {
		notes = append(notes, "Required.")
	}
	return strings.Join(notes, " ")
}

// fields appends the fields of an object to all.
func (s *configSchema) fields(all []configField, prefix string, depth int) []configField {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := cmp.Or(s.Properties[name], &configSchema{})
		f := configField{
			path: prefix + name, kind: typeName(field.Type), description: field.Description,
			values: texts(field.Enum), value: string(field.Default), required: slices.Contains(s.Required, name),
		}
		nested, path := field, f.path
		if field.Items != nil {
			nested, f.kind, path = field.Items, "list", path+"[]"
			if item := typeName(field.Items.Type); item != "" {
				f.kind += " of " + item
			}
		}
		all = append(all, f)
		if depth > 1 {
			all = nested.fields(all, path+".", depth-1)
		}
	}
	return all
}

// typeName returns the type of a schema, or "".
func typeName(t any) string {
	switch t := t.(type) {
	case string:
		return t
	case []any:
		names := make([]string, len(t))
		for i := range t {
			names[i] = fmt.Sprint(t[i])
		}
		return strings.Join(names, " or ")
	}
	return ""
}

func texts(values []json.RawMessage) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}
