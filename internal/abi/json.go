package abi

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// The JSON in this file is written by hand because encoding/json costs a Go guest
// ten times the call itself, in time and in memory. What counts there is the number of
// branches and calls rather than of bytes: at each turn of a loop, and Go makes its
// branches of loops, a guest looks whether its time is over.

const maxDepth = 64 // of nested arrays and objects

var (
	errTruncated = errors.New("unexpected end of JSON")
	errDepth     = errors.New("JSON is nested too deeply")
)

// scanner walks one JSON document from front to back.
type scanner struct {
	data  []byte
	text  string // data once more, for the strings to be part of; or "", and each is a copy
	pos   int
	depth int

	strict bool // fields that the contract does not know are errors
}

// transient returns a scanner whose strings are gone before data changes: no copies are made
// of them, which is what skipping a string would cost a guest most.
func transient(data []byte) scanner {
	return scanner{data: data, text: unsafe.String(unsafe.SliceData(data), len(data))}
}

func (s *scanner) fail(want string) error {
	if s.pos >= len(s.data) {
		return errTruncated
	}
	return fmt.Errorf("byte %d of JSON: want %s, not %q", s.pos, want, s.data[s.pos])
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

// next skips space and returns the byte that follows, 0 at the end. It is small enough to
// be inlined.
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

// end fails unless nothing but space is left.
func (s *scanner) end() error {
	if s.next() != 0 || s.pos < len(s.data) {
		return s.fail("the end")
	}
	return nil
}

// open consumes the first byte of an array or object, and reports whether it is empty,
// which it then has consumed too.
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

// ended consumes what comes after a member, and reports whether that was the end.
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

// object calls field for each of an object's fields, with the scanner at the
// field's value, which field must consume.
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

// array calls item for each of an array's items, which item must consume.
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

// part returns what is between two places.
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
	if n, ok := s.shortInt(); ok {
		return n, nil
	}
	text, err := s.number()
	if err != nil {
		return 0, err
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("number %s of JSON is no integer in range", text)
	}
	return i, nil
}

// shortInt consumes a number of a few digits, if one is next.
func (s *scanner) shortInt() (n int64, ok bool) {
	s.space()
	for i := s.pos; i < len(s.data) && i < s.pos+10; i++ {
		c := s.data[i]
		switch {
		case '0' <= c && c <= '9':
			n = n*10 + int64(c-'0')
		case (c == ',' || c == '}') && i > s.pos && (s.data[s.pos] != '0' || i == s.pos+1):
			s.pos = i
			return n, true
		default:
			return 0, false
		}
	}
	return 0, false
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

// raw consumes any value and returns its bytes, which stay part of the document.
func (s *scanner) raw() ([]byte, error) {
	s.space()
	start := s.pos
	if err := s.skip(); err != nil {
		return nil, err
	}
	return s.data[start:s.pos], nil
}

// Valid reports whether data is one JSON document of a sane depth.
func Valid(data []byte) bool {
	s := transient(data)
	return s.skip() == nil && s.end() == nil
}

// AppendString appends text to b as a JSON string. Bytes that are no UTF-8 become
// U+FFFD.
func AppendString(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(text); {
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
