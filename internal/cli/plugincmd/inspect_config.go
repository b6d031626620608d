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
	root.print(w, "", maxConfigDepth)
	return w.Flush()
}

// print writes the fields of an object.
func (s *configSchema) print(w io.Writer, prefix string, depth int) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := cmp.Or(s.Properties[name], &configSchema{})
		kind, notes := typeName(field.Type), []string{field.Description}
		nested, path := field, prefix+name
		if field.Items != nil {
			nested, kind = field.Items, "list"
			if item := typeName(field.Items.Type); item != "" {
				kind += " of " + item
			}
		}
		if len(field.Enum) > 0 {
			notes = append(notes, "One of "+strings.Join(texts(field.Enum), ", ")+".")
		}
		if len(field.Default) > 0 {
			notes = append(notes, "Default "+string(field.Default)+".")
		}
		if slices.Contains(s.Required, name) {
			notes = append(notes, "Required.")
		}
		notes = slices.DeleteFunc(notes, func(n string) bool { return n == "" })
		fmt.Fprintf(w, "  %s\t%s\t%s\n", explain.OneLine(path), explain.OneLine(kind), explain.OneLine(strings.Join(notes, " ")))
		if field.Items != nil {
			path += "[]"
		}
		if depth > 1 {
			nested.print(w, path+".", depth-1)
		}
	}
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
