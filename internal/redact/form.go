package redact

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// encoding is the encoding of a form. In a text, characters may also be escaped; see [ways].
type encoding byte

const (
	plain encoding = iota
	base64Text
	hexText
)

// form is a secret in one encoding.
type form struct {
	encoding encoding
	text     string
	// In base64, whether the character before or after text also contains bits of the secret.
	before, after bool
}

// encoded returns the forms of a secret in base64 and in hexadecimal digits; nil if it is too
// short.
func encoded(secret string) []form {
	if len(secret) < minEncoded {
		return nil
	}
	forms := []form{{encoding: hexText, text: hex.EncodeToString([]byte(secret))}}
	for before := range 3 { // number of bytes before the secret in its base64 group, such as the end of "user:"
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), secret...))
		from := (before*8 + 5) / 6 // skip characters with bits of the bytes before
		to := (before + len(secret)) * 8 / 6
		forms = append(forms, form{base64Text, text[from:to], before > 0, to < len(text)})
	}
	return forms
}

// encodedTwice returns the forms of a secret in UTF-16, and its escaped and encoded spellings in base64 and in
// hexadecimal digits; nil if it is too
// short or too long, or has several lines.
func encodedTwice(secret string) (forms []form) {
	if len(secret) < minEncoded || len(secret) > maxTwice || strings.ContainsRune(secret, '\n') {
		return nil
	}
	if utf8.ValidString(secret) {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			var wide []byte
			for _, unit := range utf16.Encode([]rune(secret)) {
				wide = order.AppendUint16(wide, unit)
			}
			forms = append(append(forms, form{text: string(wide)}), encoded(string(wide))...)
		}
	}
	for _, escaped := range escapedIn(secret) {
		if escaped != secret {
			forms = append(forms, encoded(escaped)...)
		}
	}
	if len(secret) < minTwice {
		return forms
	}
	for _, f := range encoded(secret) {
		forms = append(forms, encoded(f.text)...)
	}
	return forms
}

// unquoted returns a text without the quotes around it.
func unquoted(s string) string { return s[1 : len(s)-1] }

// escapedIn returns the usual spellings of a secret in JSON and in URLs, perhaps some twice.
func escapedIn(secret string) []string {
	quoted, _ := json.Marshal(secret) // cannot fail: it is a string
	var plain strings.Builder
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(secret)
	query := url.QueryEscape(secret)
	return []string{
		unquoted(string(quoted)), unquoted(strings.TrimSuffix(plain.String(), "\n")), query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(secret),
	}
}

// spellings returns the bytes of a text that match b, a byte of a form.
func (e encoding) spellings(b byte) []byte {
	for a := range 256 {
		if a := byte(a); a != b && e.same(b, a) {
			return []byte{b, a}
		}
	}
	return []byte{b}
}

// same reports whether a byte of a text matches b, a byte of a form.
func (e encoding) same(b, text byte) bool {
	switch {
	case b == text:
		return true
	case e == hexText:
		return b >= 'a' && text == b-'a'+'A'
	case e == base64Text: // the URL alphabet
		return b == '+' && text == '-' || b == '/' && text == '_'
	}
	return false
}

// maxBreak limits the bytes between two characters of a form, approximately: a line break, perhaps
// escaped, and the white space at the beginning of the next line.
const maxBreak = 16

// skip returns the index after the line breaks and white space that programs insert into base64, or after
// the separators that they insert between hexadecimal digits, beginning at i.
func (e encoding) skip(text string, i int) int {
	if e == plain {
		return i
	}
	from, between := i, ""
	if e == hexText {
		between = " :-"
	}
	for i < len(text) && i-from < maxBreak {
		switch c := text[i]; {
		case c == '\r' || c == '\n':
			i++
		case isEscapedBreak(text[i:]):
			i += 2
		case strings.IndexByte(between, c) >= 0:
			i++
			continue
		default:
			return i
		}
		if e == base64Text { // a line may be folded or indented
			between = " \t"
		}
	}
	return i
}

// isBreak reports whether text begins with a character that skip may skip.
func isBreak(text string) bool {
	return strings.IndexByte("\r\n :-", text[0]) >= 0 || isEscapedBreak(text)
}

func isEscapedBreak(text string) bool {
	return len(text) > 1 && text[0] == '\\' && (text[1] == 'n' || text[1] == 'r')
}

// find returns the part of the text that matches f, beginning at i; the zero span if there is none.
func (f *form) find(in *scan, i int) span {
	text := in.text
	s := search{form: f, text: text, left: in.left}
	end, used := s.match(i, 0)
	in.left = s.left
	switch {
	case used < min(len(f.text), f.leastPart()):
		return span{}
	case f.encoding != base64Text:
		return span{i, end}
	}
	if f.before && i > 0 && isBase64(text[i-1]) {
		i--
	}
	if end < len(text) && f.after && isBase64(text[end]) {
		end++
	}
	return span{i, end}
}

// leastPart returns the minimum number of characters of f at the end of a text that count as a truncated secret.
func (f *form) leastPart() int { return min(max(len(f.text)/4, 4), 8) }

// isLetter reports whether b is a letter or a digit of ASCII.
func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' }

func isBase64(b byte) bool {
	return isLetter(b) || strings.IndexByte("+/-_", b) >= 0
}

// maxForks limits the places of a text that are decoded in more than one way in the search for a
// form. Further escapes are ignored.
const maxForks = 256

// search looks for one form in one text.
type search struct {
	*form
	text  string
	left  int             // remaining steps
	forks map[[2]int]bool // places where more than one way to decode was tried
}

// match matches the text from index i with the form from index j. It returns the end of the match and
// the number of matched bytes of the form, which is less than its length if the text ends before. It returns
// 0, 0 if there is no match.
func (s *search) match(i, j int) (end, used int) {
	for j < len(s.form.text) {
		if s.left--; s.left < 0 {
			return 0, 0
		}
		if j > 0 {
			from := i
			i = s.encoding.skip(s.text, i)
			s.left -= i - from
		}
		if i == len(s.text) || s.text[i:] == "\uFFFD" { // truncated, perhaps within a character
			return len(s.text), j
		}
		same := s.encoding.same(s.form.text[j], s.text[i])
		if isEscape(s.text[i]) {
			e, k, again := s.matchEscape(i, j, same)
			if again {
				return end, used
			}
			if k > used {
				end, used = e, k
			}
		}
		if !same || used == len(s.form.text) {
			return end, used
		}
		i, j = i+1, j+1
	}
	return i, j
}

// matchEscape is match for a text with a possible escape at i. same is true if the unescaped character also
// matches. again is true if all ways to continue from there were tried before.
func (s *search) matchEscape(i, j int, same bool) (end, used int, again bool) {
	escape := ways(s.text[i:])
	s.left -= escape.steps()
	if escape.n == 0 && isCutEscape(s.text[i:]) {
		return len(s.text), j, false
	}
	fits := escape.all[:0]
	for _, u := range escape.all[:escape.n] {
		if s.has(j, u.text) {
			fits = append(fits, u)
		}
	}
	if len(fits) > 1 || len(fits) == 1 && same {
		at := [2]int{i, j}
		if s.forks[at] || len(s.forks) >= maxForks {
			return 0, 0, s.forks[at]
		}
		if s.forks == nil {
			s.forks = make(map[[2]int]bool)
		}
		s.forks[at] = true
	}
	for _, u := range fits {
		if s.left < 0 {
			break
		}
		if e, k := s.match(i+u.n, j+len(u.text)); k > used {
			end, used = e, k
		}
	}
	return end, used, false
}

// has reports whether the form continues with decoded at j.
func (s *search) has(j int, decoded string) bool {
	rest := s.form.text[j:]
	if len(decoded) > len(rest) {
		return false
	}
	for k := range len(decoded) {
		if !s.encoding.same(rest[k], decoded[k]) {
			return false
		}
	}
	return true
}
