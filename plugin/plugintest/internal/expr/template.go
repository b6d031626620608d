// Package expr has the expressions of scripts: parts ${…} of text or of hexadecimal digits, such as
// ${u16(size(rest))}, and values that a step computes.
//
// The language is total: it has names, literals, + and -, and calls of the functions in funcs.go. It has no
// loops, and an evaluation has a limit of work. Types are checked when a file is loaded. Read this file
// first, then parse.go and eval.go.
package expr

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/daeace23/prober/internal/yamlpos"
)

// Type is the type of a value.
type Type int

// The types.
const (
	Bytes Type = iota
	Int
)

// String returns the name of the type in error messages.
func (t Type) String() string {
	if t == Int {
		return "an integer"
	}
	return "bytes"
}

// Value is a string of bytes, or an integer.
type Value struct {
	Type  Type
	Bytes []byte
	Int   int64
}

// Error is an error of an expression with its position in the value of the file.
type Error struct {
	Place string // such as "column 12"
	Err   error
}

// Error returns "PLACE: message".
func (e *Error) Error() string { return e.Place + ": " + e.Err.Error() }

// Unwrap returns the error without its place.
func (e *Error) Unwrap() error { return e.Err }

// placed returns an error at an offset of text. Columns count characters from 1.
func placed(text string, offset int, err error) error {
	before := text[:min(offset, len(text))]
	line := strings.Count(before, "\n")
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	if line == 0 {
		return &Error{fmt.Sprintf("column %d", column), err}
	}
	return &Error{fmt.Sprintf("line %d of the value, column %d", line+1, column), err}
}

// Scope has the names that the expressions of one script may use. It is filled in the order of its steps.
type Scope struct{ names map[string]*binding }

// binding is a name with its type and the line that gives it a value.
type binding struct {
	typ  Type
	line int
	used bool
}

// Names that every expression, or every template, has.
const (
	before = "before" // the bytes of the template before the expression
	rest   = "rest"   // the bytes of the template after the expression
	now    = "now"    // the time of the peer's clock, in seconds since 1970
)

var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`) })

// Add adds a name that a line gives a value of a type.
func (s *Scope) Add(name string, t Type, line int) error {
	first := s.names[name]
	switch {
	case !nameForm().MatchString(name):
		return fmt.Errorf("%.80q must be a name: letters, digits and _, 64 characters at most", name)
	case name == before || name == rest || name == now:
		return fmt.Errorf("%q has a meaning in every expression: use another name", name)
	case first != nil:
		return fmt.Errorf("line %d has the name %q, too", first.line, name)
	}
	if s.names == nil {
		s.names = make(map[string]*binding)
	}
	s.names[name] = &binding{typ: t, line: line}
	return nil
}

// Unused returns the names that no expression uses, and the line of each.
func (s *Scope) Unused() map[string]int {
	unused := make(map[string]int)
	for name, b := range s.names {
		if !b.used {
			unused[name] = b.line
		}
	}
	return unused
}

// use returns the type of a name, and marks the name as used.
func (s *Scope) use(name string) (Type, error) {
	if b := s.names[name]; b != nil {
		b.used = true
		return b.typ, nil
	}
	return Bytes, fmt.Errorf("unknown name %.80q%s", name, yamlpos.Known(name, slices.Collect(maps.Keys(s.names))))
}

// Template is a message with parts that are computed when it is sent or expected. It is immutable.
type Template struct {
	source string
	parts  []part
}

// part is a literal, or an expression whose value is bytes.
type part struct {
	literal []byte
	expr    *node
}

// Text parses a template of text. $${ is the text ${.
func Text(source string, s *Scope) (*Template, error) {
	return parseTemplate(source, s, func(literal string) ([]byte, error) { return []byte(literal), nil })
}

// Hex parses a template of hexadecimal digits, between which space does not count.
func Hex(source string, s *Scope) (*Template, error) { return parseTemplate(source, s, decodeHex) }

func decodeHex(literal string) ([]byte, error) {
	var digits []byte
	for i, c := range literal {
		switch {
		case strings.ContainsRune(" \t\r\n", c):
		case strings.ContainsRune("0123456789abcdefABCDEF", c):
			digits = append(digits, byte(c))
		default:
			return nil, &failure{i, fmt.Errorf("%q is not a hexadecimal digit", c)}
		}
	}
	if len(digits)%2 != 0 {
		return nil, &failure{len(literal), errors.New("an odd number of hexadecimal digits")}
	}
	return hex.AppendDecode(nil, digits)
}

// Expression parses an expression without ${ and }. It cannot use before and rest.
func Expression(source string, s *Scope) (*Template, Type, error) {
	p := &parser{source: source, scope: s, alone: true}
	n, err := p.whole()
	if err != nil {
		return nil, Bytes, err
	}
	return &Template{source: source, parts: []part{{expr: n}}}, n.typ, nil
}

// Constant returns the bytes of a template without expressions.
func (t *Template) Constant() (data []byte, ok bool) {
	for _, p := range t.parts {
		if p.expr != nil {
			return nil, false
		}
		data = append(data, p.literal...)
	}
	return data, true
}

// String returns the template as it is in the file.
func (t *Template) String() string { return t.source }
