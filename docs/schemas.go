package docs

import (
	"embed"
	"fmt"
)

// The names of the JSON Schemas, which are the names of their files without .json.
const (
	SchemaOfAnnotation = "annotation"
	SchemaOfConfig     = "config"
	SchemaOfPlugin     = "plugin"
	SchemaOfTest       = "test"
)

// schemas has the JSON Schemas of files, for editors. internal/referencedoc writes them.
//
//go:embed schemas/*.json
var schemas embed.FS

// SchemaNames returns the names of all schemas, sorted.
func SchemaNames() []string {
	return []string{SchemaOfAnnotation, SchemaOfConfig, SchemaOfPlugin, SchemaOfTest}
}

// Schema returns the JSON Schema called name.
func Schema(name string) ([]byte, error) {
	text, err := schemas.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("unknown schema %q: %w", name, err)
	}
	return text, nil
}

// SchemaURL returns the address of the schema called name, of the newest version of prober.
func SchemaURL(name string) string {
	return "https://raw.githubusercontent.com/daeace23/prober/main/docs/schemas/" + name + ".json"
}
