package importcmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/daeace23/prober/internal/yamlpos"
)

// parseTextproto returns the message in a file of protobuf's text format, without a schema: a mapping, whose
// fields are lists where they are set more than once. See RATIONALE.md, "Why does prober import have a parser of
// protobuf's text format?".
func parseTextproto(p *plan, in input) (*object, error) {
	t := &textproto{file: in.name, text: string(in.text), line: 1}
	root := &yamlpos.Node{Kind: yamlpos.Mapping, Line: 1}
	if err := t.message(root, "", 0); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", in.name, t.line, err)
	}
	return newObject(p, in.name, "", root), nil
}

// textproto is a parser of protobuf's text format.
type textproto struct {
	file, text string
	pos, line  int
	nodes      int
}

// maxProtoNodes and maxProtoDepth bound a message.
const (
	maxProtoNodes = 200_000
	maxProtoDepth = 50
)

var errProtoEnd = errors.New("the file ends within a message")

// skip moves over space, comments and separators of fields.
func (t *textproto) skip() {
	for t.pos < len(t.text) {
		switch c := t.text[t.pos]; {
		case c == '\n':
			t.line++
			t.pos++
		case c == ' ' || c == '\t' || c == '\r':
			t.pos++
		case c == '#':
			end := strings.IndexByte(t.text[t.pos:], '\n')
			if end < 0 {
				end = len(t.text) - t.pos
			}
			t.pos += end
		default:
			return
		}
	}
}

// peek returns the next byte after space; 0 at the end.
func (t *textproto) peek() byte {
	t.skip()
	if t.pos == len(t.text) {
		return 0
	}
	return t.text[t.pos]
}

// take moves over the next byte if it is c.
func (t *textproto) take(c byte) bool {
	if t.peek() != c {
		return false
	}
	t.pos++
	return true
}

// message reads fields until end, one of ">", "}" or "", the end of the file.
func (t *textproto) message(to *yamlpos.Node, end string, depth int) error {
	if depth > maxProtoDepth {
		return fmt.Errorf("there are more than %d levels", maxProtoDepth)
	}
	known := make(map[string]*yamlpos.Node)
	for {
		switch c := t.peek(); {
		case c == 0 && end == "":
			return nil
		case c == 0:
			return errProtoEnd
		case end != "" && string(c) == end:
			t.pos++
			return nil
		case c == ',' || c == ';':
			t.pos++
			continue
		}
		if err := t.field(to, known, depth); err != nil {
			return err
		}
	}
}

// field reads a field. known has the fields of the message.
func (t *textproto) field(to *yamlpos.Node, known map[string]*yamlpos.Node, depth int) error {
	line := t.line
	name, err := t.name()
	if err != nil {
		return err
	}
	colon := t.take(':')
	if c := t.peek(); !colon && c != '{' && c != '<' {
		return fmt.Errorf("%q must be followed by a colon or a message", name)
	}
	var values []*yamlpos.Node
	if t.take('[') {
		for !t.take(']') {
			v, err := t.value(depth)
			if err != nil {
				return err
			}
			values = append(values, v)
			t.take(',')
		}
	} else {
		v, err := t.value(depth)
		if err != nil {
			return err
		}
		values = append(values, v)
	}
	if have := known[name]; have != nil {
		addValues(have, values)
		return nil
	}
	v := &yamlpos.Node{Kind: yamlpos.List, Line: line, Content: values}
	if len(values) == 1 {
		v = values[0]
	}
	known[name] = v
	to.Content = append(to.Content, &yamlpos.Node{Kind: yamlpos.Scalar, Tag: "!!str", Value: name, Line: line}, v)
	return nil
}

// addValues adds values to a field that is set.
func addValues(have *yamlpos.Node, values []*yamlpos.Node) {
	if have.Kind == yamlpos.List {
		have.Content = append(have.Content, values...)
		return
	}
	first := *have
	*have = yamlpos.Node{Kind: yamlpos.List, Line: first.Line, Content: append([]*yamlpos.Node{&first}, values...)}
}

// name reads the name of a field, or of an extension in brackets.
func (t *textproto) name() (string, error) {
	if t.take('[') {
		end := strings.IndexAny(t.text[t.pos:], "]\n")
		if end < 0 || t.text[t.pos+end] != ']' {
			return "", errors.New("the name of an extension has no end")
		}
		name := strings.TrimSpace(t.text[t.pos : t.pos+end])
		t.pos += end + 1
		return name, nil
	}
	start := t.pos
	for t.pos < len(t.text) && isWord(t.text[t.pos]) {
		t.pos++
	}
	if start == t.pos {
		r, _ := utf8.DecodeRuneInString(t.text[t.pos:])
		return "", fmt.Errorf("a field cannot begin with %q", r)
	}
	return t.text[start:t.pos], nil
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// value reads a message, a string, a number or the name of a constant.
func (t *textproto) value(depth int) (*yamlpos.Node, error) {
	if t.nodes++; t.nodes > maxProtoNodes {
		return nil, fmt.Errorf("there are more than %d values", maxProtoNodes)
	}
	c := t.peek()
	line := t.line
	switch c {
	case 0:
		return nil, errProtoEnd
	case '{', '<':
		t.pos++
		n := &yamlpos.Node{Kind: yamlpos.Mapping, Line: line}
		return n, t.message(n, map[byte]string{'{': "}", '<': ">"}[c], depth+1)
	case '"', '\'':
		text, err := t.strings()
		return &yamlpos.Node{Kind: yamlpos.Scalar, Tag: "!!str", Value: text, Line: line}, err
	}
	start := t.pos
	for t.pos < len(t.text) && (isWord(t.text[t.pos]) || strings.IndexByte("+-.", t.text[t.pos]) >= 0) {
		t.pos++
	}
	if start == t.pos {
		r, _ := utf8.DecodeRuneInString(t.text[t.pos:])
		return nil, fmt.Errorf("a value cannot begin with %q", r)
	}
	return &yamlpos.Node{Kind: yamlpos.Scalar, Tag: "!!str", Value: t.text[start:t.pos], Line: line}, nil
}

// strings reads one or more strings, which are one value.
func (t *textproto) strings() (string, error) {
	var b strings.Builder
	for c := t.peek(); c == '"' || c == '\''; c = t.peek() {
		t.pos++
		if err := t.quoted(&b, c); err != nil {
			return "", err
		}
	}
	if !utf8.ValidString(b.String()) {
		return "", errors.New("a string is not UTF-8")
	}
	return b.String(), nil
}

// quoted reads the rest of a string, after its quote.
func (t *textproto) quoted(b *strings.Builder, quote byte) error {
	for t.pos < len(t.text) {
		c := t.text[t.pos]
		t.pos++
		switch c {
		case quote:
			return nil
		case '\n':
			return errors.New("a string has no end")
		case '\\':
			if err := t.escape(b); err != nil {
				return err
			}
		default:
			b.WriteByte(c)
		}
	}
	return errProtoEnd
}

// escape reads an escape sequence after its backslash.
func (t *textproto) escape(b *strings.Builder) error {
	if t.pos == len(t.text) {
		return errProtoEnd
	}
	c := t.text[t.pos]
	t.pos++
	if i := strings.IndexByte(`abfnrtv\'"?`, c); i >= 0 {
		b.WriteByte("\a\b\f\n\r\t\v\\'\"?"[i])
		return nil
	}
	digits := func(least, most, base int, allowed string) (uint64, error) {
		start := t.pos
		for t.pos < len(t.text) && t.pos-start < most && strings.IndexByte(allowed, t.text[t.pos]) >= 0 {
			t.pos++
		}
		if t.pos-start < least {
			return 0, errors.New("an escape sequence has too few digits")
		}
		return strconv.ParseUint(t.text[start:t.pos], base, 32)
	}
	const hex = "0123456789abcdefABCDEF"
	switch {
	case c >= '0' && c <= '7':
		t.pos--
		n, err := digits(1, 3, 8, "01234567")
		b.WriteByte(byte(n))
		return err
	case c == 'x' || c == 'X':
		n, err := digits(1, 2, 16, hex)
		b.WriteByte(byte(n))
		return err
	case c == 'u':
		n, err := digits(4, 4, 16, hex)
		b.WriteRune(rune(n))
		return err
	case c == 'U':
		n, err := digits(8, 8, 16, hex)
		b.WriteRune(rune(n & 0x1fffff))
		return err
	}
	return errors.New("an escape sequence is unknown")
}
