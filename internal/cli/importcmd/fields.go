package importcmd

import (
	"bytes"
	"encoding/json"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// field is a field of a mapping.
type field struct {
	key   string
	value any // nil, bool, int, float64, string, time.Duration, []int, []string, []any, []fields, fields or map[string]string
}

// fields is a mapping whose fields have an order.
type fields []field

// with returns f with another field, unless value is the zero value, nil or empty.
func (f fields) with(key string, value any) fields {
	v := reflect.ValueOf(value)
	if !v.IsValid() || v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0 {
		return f
	}
	return append(f[:len(f):len(f)], field{key, value})
}

// set returns f with another field of any value.
func (f fields) set(key string, value any) fields {
	return append(f[:len(f):len(f)], field{key, value})
}

// get returns the value of a field; nil if it is not set.
func (f fields) get(key string) any {
	for _, x := range f {
		if x.key == key {
			return x.value
		}
	}
	return nil
}

// duration returns d without units of zero: 1m, not 1m0s.
func duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// node returns value as a YAML node. Small mappings and lists are on one line.
func node(value any) *yaml.Node {
	switch v := value.(type) {
	case fields:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range v {
			n.Content = append(n.Content, text(f.key), node(f.value))
		}
		return flow(n)
	case map[string]string:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range sortedKeys(v) {
			n.Content = append(n.Content, text(key), text(v[key]))
		}
		return flow(n)
	case []fields:
		return list(v)
	case []string:
		return list(v)
	case []int:
		return list(v)
	case []any:
		return list(v)
	case string:
		return text(v)
	case time.Duration:
		return text(duration(v))
	case int:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(v)}
	case float64:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: strconv.FormatFloat(v, 'f', -1, 64)}
		if !strings.Contains(n.Value, ".") {
			n.Tag = "!!int"
		}
		return n
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
}

func text(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == '\u0085' || r == '\u2028' || r == '\u2029' || r == '\ufeff'
	}) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func list[T any](values []T) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, v := range values {
		n.Content = append(n.Content, node(v))
	}
	return flow(n)
}

// maxFlow is the length of the mappings and lists that are written on one line.
const maxFlow = 80

// flow sets the style of a mapping or a list.
func flow(n *yaml.Node) *yaml.Node {
	if length(n) <= maxFlow || n.Kind == yaml.SequenceNode && len(n.Content) > 0 && n.Content[0].Tag == "!!int" {
		n.Style = yaml.FlowStyle
	}
	return n
}

func length(n *yaml.Node) int {
	size := len(n.Value) + 2
	for _, c := range n.Content {
		size += length(c)
	}
	return size
}

// renderJSON returns f as JSON.
func renderJSON(f fields) []byte {
	var v any
	if err := node(f).Decode(&v); err != nil {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil
	}
	return b.Bytes()
}

// texts yields all strings in f.
func texts(f fields) iter.Seq[string] {
	return func(yield func(string) bool) { walkTexts(node(f), yield) }
}

func walkTexts(n *yaml.Node, yield func(string) bool) bool {
	if n.Kind == yaml.ScalarNode && !yield(n.Value) {
		return false
	}
	for _, c := range n.Content {
		if !walkTexts(c, yield) {
			return false
		}
	}
	return true
}
