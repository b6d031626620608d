package field

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// IsText reports whether data is text that a person can read.
func IsText(data []byte) bool {
	return utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' || r == utf8.RuneError || r == '\uFEFF'
	})
}

const maxQuoted = 200

// Quote returns data for an error message: quoted text, or hexadecimal digits.
func Quote(data []byte) string {
	more := ""
	if len(data) > maxQuoted {
		data, more = data[:maxQuoted], "…"
	}
	for _, b := range data {
		if b < ' ' && b != '\n' && b != '\r' && b != '\t' || b > '~' {
			return fmt.Sprintf("hex %x%s", data, more)
		}
	}
	return fmt.Sprintf("%q%s", data, more)
}

// Text is a string that is written on one line, with escapes where it has several.
type Text string

var _ yaml.Marshaler = Text("")

// MarshalYAML implements [yaml.Marshaler].
func (t Text) MarshalYAML() (any, error) {
	n := &yaml.Node{}
	n.SetString(string(t))
	if strings.ContainsAny(string(t), "\n\r\t") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n, nil
}

// List is a list of strings that is written on one line.
type List []string

var _ yaml.Marshaler = List{}

// MarshalYAML implements [yaml.Marshaler].
func (l List) MarshalYAML() (any, error) {
	texts := make([]Text, len(l))
	for i, text := range l {
		texts[i] = Text(text)
	}
	return Flow(texts)
}

// Data is bytes that are written as {text: …} if they are text, otherwise as {hex: …}.
type Data []byte

var _ yaml.Marshaler = Data{}

const hexLine = 40 // bytes of a line

// MarshalYAML implements [yaml.Marshaler].
func (d Data) MarshalYAML() (any, error) {
	if IsText(d) {
		return Flow(struct{ Text Text }{Text(d)})
	}
	if len(d) <= hexLine {
		return Flow(struct{ Hex Text }{Text(hex.EncodeToString(d))})
	}
	var lines []string
	for line := range slices.Chunk(d, hexLine) {
		lines = append(lines, hex.EncodeToString(line))
	}
	return struct{ Hex string }{strings.Join(lines, "\n")}, nil
}

// Flow returns value as a node on one line.
func Flow(value any) (*yaml.Node, error) {
	n := &yaml.Node{}
	err := n.Encode(value)
	n.Style = yaml.FlowStyle
	return n, err
}

// JSON is a JSON document that is written as YAML.
type JSON []byte

var _ yaml.Marshaler = JSON{}

// MarshalYAML implements [yaml.Marshaler].
func (j JSON) MarshalYAML() (any, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(j, &n); err == nil && len(n.Content) == 1 {
		return unquoted(n.Content[0]), nil
	}
	var value any // YAML knows neither tabs nor all escapes of JSON
	err := json.Unmarshal(j, &value)
	return value, err
}

// unquoted drops the quotes that YAML does not need.
func unquoted(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		value, _ := Text(n.Value).MarshalYAML()
		*n = *value.(*yaml.Node)
	}
	for _, child := range n.Content {
		unquoted(child)
	}
	return n
}

// Commented is a value with a comment above it.
type Commented struct {
	Value   any
	Comment string
}

// CommentedList returns a list of values with comments. [yaml.Node.Encode] would drop them.
func CommentedList(values []Commented) (*yaml.Node, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, v := range values {
		n := &yaml.Node{}
		if err := n.Encode(v.Value); err != nil {
			return nil, err
		}
		n.HeadComment = v.Comment
		list.Content = append(list.Content, n)
	}
	return list, nil
}
