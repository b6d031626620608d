package abi

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// This package does not use encoding/json, which costs a Go guest ten times the time and memory of the call
// itself. In a guest, the number of branches and calls determines the cost, not the number of bytes:
// compiled code checks the deadline in every loop, and Go compiles branches to loops.

const maxDepth = 64 // maximum depth of nested arrays and objects

var (
	errTruncated = errors.New("unexpected end of JSON")
	errDepth     = errors.New("JSON is nested too deeply")
)

// scanner reads one JSON document from front to back.
type scanner struct {
	data  []byte
	text  string // data as a string; decoded strings are parts of it. If it is "", they are copied
	pos   int
	depth int

	strict bool // unknown fields are errors
}

// transient returns a scanner that does not copy strings. The caller must not use them after data has
// changed.
func transient(data []byte) scanner {
	return scanner{data: data, text: unsafe.String(unsafe.SliceData(data), len(data))}
}

func (s *scanner) fail(want string) error {
	if s.pos >= len(s.data) {
		return errTruncated
	}
	return fmt.Errorf("byte %d of JSON: expected %s, got %q", s.pos, want, s.data[s.pos])
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// next skips white space and returns the next byte, or 0 at the end. It is small enough to be inlined.
func (s *scanner) next() byte {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos]
	}
	return s.nextAfterSpace()
}

func (s *scanner) nextAfterSpace() byte {
	s.space()
	if s.pos == len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

// end returns an error unless only white space is left.
func (s *scanner) end() error {
	if s.next() != 0 || s.pos < len(s.data) {
		return s.fail("the end")
	}
	return nil
}

// open consumes the first byte of an array or object. If the array or object is empty, open consumes all of
// it.
func (s *scanner) open(open, close byte, what string) (empty bool, err error) {
	if s.next() != open {
		return false, s.fail(what)
	}
	if s.depth++; s.depth > maxDepth {
		return false, errDepth
	}
	s.pos++
	if s.next() != close {
		return false, nil
	}
	s.pos++
	s.depth--
	return true, nil
}

// ended consumes the byte after an element, and reports whether the array or object has ended.
func (s *scanner) ended(close byte) (bool, error) {
	switch s.next() {
	case ',':
		s.pos++
		return false, nil
	case close:
		s.pos++
		s.depth--
		return true, nil
	default:
		return false, s.fail(`"," or "` + string(close) + `"`)
	}
}

// object calls field for each field of an object. field must consume the value.
func (s *scanner) object(field func(name string) error) error {
	ended, err := s.open('{', '}', "an object")
	for !ended && err == nil {
		if s.next() != '"' {
			return s.fail("a field's name")
		}
		name, strErr := s.str()
		if strErr != nil {
			return strErr
		}
		if s.next() != ':' {
			return s.fail(`":"`)
		}
		s.pos++
		if err = field(name); err != nil {
			return err
		}
		ended, err = s.ended('}')
	}
	return err
}

// array calls item for each item of an array. item must consume it.
func (s *scanner) array(item func(i int) error) error {
	ended, err := s.open('[', ']', "an array")
	for i := 0; !ended && err == nil; i++ {
		if err = item(i); err == nil {
			ended, err = s.ended(']')
		}
	}
	return err
}

// number consumes a number and returns its text.
func (s *scanner) number() (string, error) {
	s.space()
	start := s.pos
	if s.pos < len(s.data) && s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++
	} else if s.digits() == 0 {
		return "", s.fail("a number")
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if s.digits() == 0 {
			return "", s.fail("a digit")
		}
	}
	if s.pos < len(s.data) && s.data[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if s.digits() == 0 {
			return "", s.fail("a digit")
		}
	}
	return s.part(start, s.pos), nil
}

// part returns the text between two positions.
func (s *scanner) part(from, to int) string {
	if s.text != "" {
		return s.text[from:to]
	}
	return string(s.data[from:to])
}

func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - start
}

func (s *scanner) float() (float64, error) {
	text, err := s.number()
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("number %s of JSON is out of range", text)
	}
	return f, nil
}

func (s *scanner) int() (int64, error) {
	text, err := s.number()
	if err != nil {
		return 0, err
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("number %s of JSON is not an integer in range", text)
	}
	return i, nil
}

func (s *scanner) literal(word string) error {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return s.fail(word)
	}
	s.pos += len(word)
	return nil
}

// skip consumes any value.
func (s *scanner) skip() error {
	switch c := s.next(); {
	case c == '{':
		return s.object(func(string) error { return s.skip() })
	case c == '[':
		return s.array(func(int) error { return s.skip() })
	case c == '"':
		_, err := s.str()
		return err
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case c == '-' || '0' <= c && c <= '9':
		_, err := s.number()
		return err
	default:
		return s.fail("a value")
	}
}

// raw consumes any value and returns its bytes. They are not copied from the document.
func (s *scanner) raw() ([]byte, error) {
	s.space()
	start := s.pos
	if err := s.skip(); err != nil {
		return nil, err
	}
	return s.data[start:s.pos], nil
}

// Valid reports whether data is one JSON document with at most maxDepth nested levels.
func Valid(data []byte) bool {
	s := transient(data)
	return s.skip() == nil && s.end() == nil
}

// AppendString appends text to b as a JSON string. Invalid UTF-8 bytes become U+FFFD.
func AppendString(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	plain := 0
	for plain < len(text) && ' ' <= text[plain] && text[plain] < 0x7f && text[plain] != '"' && text[plain] != '\\' {
		plain++
	}
	b = append(b, text[:plain]...)
	for i := plain; i < len(text); {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, size := utf8.DecodeRuneInString(text[i:])
			b = utf8.AppendRune(b, r)
			i += size - 1
		}
		i++
	}
	return append(b, '"')
}

// appendFloat appends f, which must be finite.
func appendFloat(b []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.AppendInt(b, int64(f), 10)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}
