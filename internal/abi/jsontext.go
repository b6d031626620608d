package abi

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// str consumes a string. It scans eight bytes per step.
func (s *scanner) str() (string, error) {
	if s.pos >= len(s.data) || s.data[s.pos] != '"' {
		if s.next() != '"' {
			return "", s.fail("a string")
		}
	}
	start := s.pos + 1
	end := start
	for len(s.data)-end >= 8 {
		stop := special(binary.LittleEndian.Uint64(s.data[end:]))
		if stop == 0 {
			end += 8
			continue
		}
		end += bits.TrailingZeros64(stop) / 8
		if s.data[end] == '"' && s.text != "" {
			s.pos = end + 1
			return s.text[start:end], nil
		}
		break
	}
	return s.strFrom(start, end)
}

// strFrom consumes the rest of a string that began at start. There is no special byte before i.
func (s *scanner) strFrom(start, i int) (string, error) {
	for ; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return s.part(start, i), nil
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

// special returns a word in which the lowest set top bit marks the first byte of w that is a quote, a
// backslash or a control character. Higher top bits have no meaning.
func special(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^ones*'"', w^ones*'\\'
	return ((quote-ones)&^quote | (backslash-ones)&^backslash | (w-ones*' ')&^w) & tops
}

// escaped consumes the rest of a string that began at start. The first escape is at i.
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

// escape consumes one escape after its backslash, and appends the decoded bytes.
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

// unicode consumes "uXXXX", and also the second half of a surrogate pair.
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
