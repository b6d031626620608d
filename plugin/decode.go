package plugin

import (
	"github.com/daeace23/prober/internal/yamlpos"
)

// MaxManifest is the most bytes that a manifest may have.
const MaxManifest = 256 << 10

// FieldError is an error with its place in a file: its fields are File, Line (from 1),
// Field, such as "config.schema", and Err.
type FieldError = yamlpos.Error

// ParseManifest reads a plugin.yaml. file names it in errors, which are
// [FieldError]s, joined where there are several.
func ParseManifest(file string, data []byte) (*Manifest, error) {
	d := decoder{Decoder: yamlpos.Decoder{File: file}}
	m := Minimal("")
	if root := d.Parse(data, MaxManifest); root != nil {
		d.manifest(root, m)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// decoder reads a manifest.
type decoder struct {
	yamlpos.Decoder

	examples []*yamlpos.Node // the configs of the examples, in order
}
