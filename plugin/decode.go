package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxManifest is the most bytes that a manifest may have.
const MaxManifest = 256 << 10

// ParseManifest reads a plugin.yaml. file names it in errors, which are
// [FieldError]s, joined where there are several.
func ParseManifest(file string, data []byte) (*Manifest, error) {
	if len(data) > MaxManifest {
		return nil, fmt.Errorf("%s: a manifest has at most %d bytes", file, MaxManifest)
	}
	root, err := document(file, data)
	if err != nil {
		return nil, err
	}
	m := Minimal("")
	d := decoder{file: file}
	d.manifest(root, m)
	if len(d.errs) > 0 {
		return nil, errors.Join(d.errs...)
	}
	return m, nil
}

// document returns the root of the one YAML document in data.
func document(file string, data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: the manifest is empty", file)
	case err != nil:
		return nil, SyntaxError(file, err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: a manifest is one YAML document", file)
	}
	if left := maxWritten; !written(&doc, &left) {
		return nil, fmt.Errorf("%s: the manifest is too large with its aliases written out", file)
	}
	return doc.Content[0], nil
}

// maxWritten is how much a manifest may come to with its aliases written out: a text of
// half of its size and as many aliases of it were gigabytes.
const maxWritten = 8 << 20

// written takes what n comes to off left, and reports whether it was there.
func written(n *yaml.Node, left *int) bool {
	const node = 16 // of any kind, also so that an alias within itself comes to an end
	if *left -= node + len(n.Value); *left < 0 {
		return false
	}
	if n.Alias != nil && !written(n.Alias, left) {
		return false
	}
	for _, child := range n.Content {
		if !written(child, left) {
			return false
		}
	}
	return true
}

// decoder reads a manifest's nodes and gathers what is wrong with them.
type decoder struct {
	file     string
	errs     []error
	examples []*yaml.Node // the configs of the examples, in order
}

func (d *decoder) failf(n *yaml.Node, path, format string, args ...any) {
	d.fail(n, path, fmt.Errorf(format, args...))
}

// fail adds an error, or each of those that it joins.
func (d *decoder) fail(n *yaml.Node, path string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			d.fail(n, path, err)
		}
		return
	}
	d.errs = append(d.errs, &FieldError{File: d.file, Line: n.Line, Field: path, Err: err})
}

// fields is what may be in a mapping.
type fields map[string]func(n *yaml.Node, path string)

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// mapping reads the fields of a mapping, and reports those that are missing.
func (d *decoder) mapping(n *yaml.Node, path string, known fields, required ...string) {
	if n.Kind != yaml.MappingNode {
		d.failf(n, path, "want a mapping")
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		read, ok := known[key.Value]
		switch {
		case !ok:
			d.failf(key, at, "unknown field; known: %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case seen[key.Value]:
			d.failf(key, at, "the field is there twice")
		default:
			read(value, at)
		}
		seen[key.Value] = true
	}
	for _, name := range required {
		if !seen[name] {
			d.failf(n, join(path, name), "the field is required")
		}
	}
}

func (d *decoder) items(n *yaml.Node, path string, item func(n *yaml.Node, path string)) {
	if n.Kind != yaml.SequenceNode {
		d.failf(n, path, "want a list")
		return
	}
	for i, child := range n.Content {
		item(child, path+"["+strconv.Itoa(i)+"]")
	}
}

func (d *decoder) text(to *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			d.failf(n, path, "want a text")
			return
		}
		*to = n.Value
	}
}

func (d *decoder) truth(to *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Tag != "!!bool" || n.Decode(to) != nil {
			d.failf(n, path, "want true or false")
		}
	}
}

func (d *decoder) number(to *int, least int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Tag != "!!int" || n.Decode(to) != nil {
			d.failf(n, path, "want a whole number")
		} else if *to < least {
			d.failf(n, path, "must be at least %d", least)
		}
	}
}

func oneOf[T ~string](d *decoder, to *T, known ...T) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || !slices.Contains(known, T(n.Value)) {
			names := strings.Trim(strings.ReplaceAll(fmt.Sprint(known), " ", ", "), "[]")
			d.failf(n, path, "unknown value %q; known: %s", n.Value, names)
			return
		}
		*to = T(n.Value)
	}
}

func (d *decoder) constant(want string) func(*yaml.Node, string) {
	var got string
	return oneOf(d, &got, want)
}
