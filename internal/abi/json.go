package abi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The JSON in this file is written by hand because encoding/json costs a Go guest
// ten times the call itself, in time and in memory.

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
}

func (s *scanner) fail(want string) error {
	if s.pos >= len(s.data) {
		return errTruncated
	}
	return fmt.Errorf("byte %d of JSON: want %s, not %q", s.pos, want, s.data[s.pos])
}

func (s *scanner) space() {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return // as nearly always
	}
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// next skips space and returns the byte that follows, 0 at the end.
func (s *scanner) next() byte {
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

// list walks the members between open and close and calls member before each.
func (s *scanner) list(open, close byte, what string, member func() error) error {
	if s.next() != open {
		return s.fail(what)
	}
	if s.depth++; s.depth > maxDepth {
		return errDepth
	}
	s.pos++
	if s.next() == close {
		s.pos++
		s.depth--
		return nil
	}
	for {
		if err := member(); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.pos++
		case close:
			s.pos++
			s.depth--
			return nil
		default:
			return s.fail(`"," or "` + string(close) + `"`)
		}
	}
}

// object calls field for each of an object's fields, with the scanner at the
// field's value, which field must consume.
func (s *scanner) object(field func(name string) error) error {
	return s.list('{', '}', "an object", func() error {
		if s.next() != '"' {
			return s.fail("a field's name")
		}
		name, err := s.str()
		if err != nil {
			return err
		}
		if s.next() != ':' {
			return s.fail(`":"`)
		}
		s.pos++
		return field(name)
	})
}

// array calls item for each of an array's items, which item must consume.
func (s *scanner) array(item func(i int) error) error {
	i := -1
	return s.list('[', ']', "an array", func() error {
		i++
		return item(i)
	})
}

// str consumes a string.
func (s *scanner) str() (string, error) {
	if s.next() != '"' {
		return "", s.fail("a string")
	}
	start := s.pos + 1
	for i := start + plain(s.data[start:]); i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			if s.text != "" {
				return s.text[start:i], nil
			}
			return string(s.data[start:i]), nil
		case c == '\\':
			return s.escaped(start, i)
		case c < ' ':
			s.pos = i
			return "", s.fail("a string without control characters")
		}
	}
	s.pos = len(s.data)
	return "", errTruncated
}

// plain returns how many bytes at least come before a quote, a backslash or a control
// character. It looks at eight bytes at a time: in a guest each turn of a loop has the
// host look at the clock.
func plain(data []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(data)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(data[n:])
		quote, backslash := w^ones*'"', w^ones*'\\'
		found := ((quote-ones)&^quote | (backslash-ones)&^backslash | (w-ones*' ')&^w) & tops
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	return n
}

// escaped consumes the rest of the string that began at start and has its first
// escape at i.
func (s *scanner) escaped(start, i int) (string, error) {
	out := append([]byte(nil), s.data[start:i]...)
	for s.pos = i; s.pos < len(s.data); {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return string(out), nil
		case c < ' ':
			return "", s.fail("a string without control characters")
		case c != '\\':
			out = append(out, c)
			s.pos++
		default:
			s.pos++
			var err error
			if out, err = s.escape(out); err != nil {
				return "", err
			}
		}
	}
	return "", errTruncated
}

// escape consumes one escape, whose backslash is behind, and appends what it
// stands for.
func (s *scanner) escape(out []byte) ([]byte, error) {
	if s.pos == len(s.data) {
		return nil, errTruncated
	}
	c := s.data[s.pos]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, err := s.unicode()
		if err != nil {
			return nil, err
		}
		return utf8.AppendRune(out, r), nil
	default:
		return nil, s.fail("an escape")
	}
	s.pos++
	return append(out, c), nil
}

// unicode consumes "uXXXX", and the second half of a surrogate pair with it.
func (s *scanner) unicode() (rune, error) {
	r, err := s.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if s.pos+1 >= len(s.data) || s.data[s.pos] != '\\' || s.data[s.pos+1] != 'u' {
		return utf8.RuneError, nil
	}
	back := s.pos
	s.pos++
	low, err := s.hex4()
	if err != nil {
		return 0, err
	}
	if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
		return pair, nil
	}
	s.pos = back
	return utf8.RuneError, nil
}

// hex4 consumes "uXXXX".
func (s *scanner) hex4() (rune, error) {
	if s.pos+5 > len(s.data) {
		s.pos = len(s.data)
		return 0, errTruncated
	}
	var r rune
	for _, c := range s.data[s.pos+1 : s.pos+5] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, s.fail("four hexadecimal digits")
		}
	}
	s.pos += 5
	return r, nil
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
	return string(s.data[start:s.pos]), nil
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
		return 0, fmt.Errorf("number %s of JSON is no integer in range", text)
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
	s := scanner{data: data}
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
