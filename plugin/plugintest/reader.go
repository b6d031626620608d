package plugintest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/plugin"
)

// reader reads nodes and gathers what is wrong with them.
type reader struct {
	file string
	errs []error
}

func (r *reader) failf(n *yaml.Node, path, format string, args ...any) {
	r.errs = append(r.errs, &plugin.FieldError{File: r.file, Line: n.Line, Field: path, Err: fmt.Errorf(format, args...)})
}

// read reads the node at a path.
type read = func(n *yaml.Node, path string)

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// mapping reads the fields of a mapping, and reports those that are missing.
func (r *reader) mapping(n *yaml.Node, path string, known map[string]read, required ...string) {
	seen := r.entries(n, path, func(key, value *yaml.Node, at string) {
		if take, ok := known[key.Value]; ok {
			take(value, at)
			return
		}
		r.failf(key, at, "unknown field; known: %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	})
	for _, name := range required {
		if seen != nil && !seen[name] {
			r.failf(n, join(path, name), "the field is required")
		}
	}
}

// one reads a mapping that has exactly one of the known fields.
func (r *reader) one(n *yaml.Node, path string, known map[string]read) {
	r.mapping(n, path, known)
	if n.Kind == yaml.MappingNode && len(n.Content) != 2 {
		r.failf(n, path, "want exactly one of %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
}

// entries goes through a mapping and returns the names that it has; nil for none.
func (r *reader) entries(n *yaml.Node, path string, entry func(key, value *yaml.Node, at string)) map[string]bool {
	if n.Kind != yaml.MappingNode {
		r.failf(n, path, "want a mapping")
		return nil
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		if seen[key.Value] {
			r.failf(key, at, "the field is there twice")
			continue
		}
		seen[key.Value] = true
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		entry(key, value, at)
	}
	return seen
}

func (r *reader) items(n *yaml.Node, path string, item read) {
	if n.Kind != yaml.SequenceNode {
		r.failf(n, path, "want a list")
		return
	}
	for i, child := range n.Content {
		if child.Kind == yaml.AliasNode {
			child = child.Alias
		}
		item(child, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (r *reader) scalar(n *yaml.Node, path string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.failf(n, path, "want a text")
		return "", false
	}
	return n.Value, true
}

func (r *reader) text(to *string) read {
	return func(n *yaml.Node, path string) { *to, _ = r.scalar(n, path) }
}

func (r *reader) number(to *int) read {
	return func(n *yaml.Node, path string) {
		if n.Tag != "!!int" || n.Decode(to) != nil || *to < 0 {
			r.failf(n, path, "want a whole number, not below 0")
		}
	}
}

func (r *reader) port(to *int) read {
	return func(n *yaml.Node, path string) {
		if r.number(to)(n, path); *to > math.MaxUint16 {
			r.failf(n, path, "want a port, of 65535 at most")
		}
	}
}

func (r *reader) duration(to *time.Duration) read {
	return func(n *yaml.Node, path string) {
		d, err := time.ParseDuration(n.Value)
		if err != nil || d < 0 {
			r.failf(n, path, "%.40q is no duration: want 50ms, 1s, 1m30s", n.Value)
			return
		}
		*to = d
	}
}

// timeout reads a duration that is not 0.
func (r *reader) timeout(to *time.Duration) read {
	return func(n *yaml.Node, path string) {
		if r.duration(to)(n, path); *to == 0 {
			r.failf(n, path, "must be above 0")
		}
	}
}

// parsed reads a text that parse makes something of.
func parsed[T any](r *reader, to *T, parse func(string) (T, error)) read {
	return func(n *yaml.Node, path string) {
		text, ok := r.scalar(n, path)
		if !ok {
			return
		}
		value, err := parse(text)
		if err != nil {
			r.failf(n, path, "%w", err)
			return
		}
		*to = value
	}
}

// constant wants one of the texts.
func (r *reader) constant(known ...string) read {
	return func(n *yaml.Node, path string) {
		if text, ok := r.scalar(n, path); ok && !slices.Contains(known, text) {
			r.failf(n, path, "unknown value %.80q; known: %s", text, strings.Join(known, ", "))
		}
	}
}

// object reads a mapping as JSON.
func (r *reader) object(to *[]byte) read {
	return func(n *yaml.Node, path string) {
		var value map[string]any
		if n.Kind != yaml.MappingNode {
			r.failf(n, path, "want a mapping")
			return
		}
		err := n.Decode(&value)
		if err == nil {
			*to, err = json.Marshal(value)
		}
		if err != nil {
			r.failf(n, path, "%w", err)
		}
	}
}

func (r *reader) appended(to *[]string) read {
	return func(n *yaml.Node, path string) {
		text, _ := r.scalar(n, path)
		*to = append(*to, text)
	}
}
