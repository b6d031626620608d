package redact

import (
	"html"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escapes has the bytes that begin an escape.
const escapes = `%\&+`

const (
	longestEscape = 40 // bytes
	maxNested     = 4  // maximum number of times that an escape was escaped again
)

func isEscape(b byte) bool { return b == '%' || b == '\\' || b == '&' || b == '+' }

// unit is one way to decode an escape: the decoded text, and the length of the escape in bytes.
type unit struct {
	text string
	n    int
}

// units has the ways to decode an escape.
type units struct {
	all [6]unit
	n   int
}

// add adds a way to decode the escape, unless text is empty or n is 0.
func (u *units) add(text string, n int) {
	if n > 0 && text != "" && u.n < len(u.all) {
		u.all[u.n] = unit{text, n}
		u.n++
	}
}

// ways returns the ways to decode the escape at the beginning of text: a URL, HTML or backslash
// escape. It may have been escaped again.
func ways(text string) (u units) {
	switch text[0] {
	case '+':
		u.add(" ", 1)
	case '%':
		u.addNested(text, "25", percent)
	case '&':
		u.addNested(text, "amp;", entity)
	case '\\':
		u.addBackslash(text)
	}
	return u
}

// addNested adds the result of read for text, and for text without again. When an escape was escaped again,
// its first character is followed by again, such as "25" in "%252f".
func (u *units) addNested(text, again string, read func(string) (string, int)) {
	u.add(read(text))
	after := 1
	for range maxNested {
		if !strings.HasPrefix(text[after:], again) {
			break
		}
		after += len(again)
		decoded, n := read(text[:1] + text[after:min(len(text), after+longestEscape)])
		if n > 0 {
			u.add(decoded, n+after-1)
		}
	}
}

// percent decodes "%2f".
func percent(text string) (string, int) {
	if b, ok := digits(text, 1, 2, 16); ok {
		return string([]byte{byte(b)}), 3
	}
	return "", 0
}

// entity decodes "&quot;", "&#34;" and "&#x22;".
func entity(text string) (string, int) {
	end := strings.IndexByte(text[:min(len(text), longestEscape)], ';')
	if end < 0 {
		return "", 0
	}
	decoded := html.UnescapeString(text[:end+1])
	if decoded == text[:end+1] {
		return "", 0
	}
	return decoded, end + 1
}

// addBackslash adds the ways to decode a backslash escape. A text that was quoted again has
// several backslashes.
func (u *units) addBackslash(text string) {
	run := 1
	for run < min(len(text), 2<<maxNested) && text[run] == '\\' {
		run++
	}
	for n := 2; n <= min(run, 1<<maxNested); n *= 2 {
		if u.n < 2 {
			u.add(`\`, n)
		}
	}
	if run == len(text) || run > 1<<maxNested {
		return
	}
	switch c := text[run]; {
	case '0' <= c && c <= '7':
		if b, ok := digits(text, run, 3, 8); ok && b < 256 {
			u.add(string([]byte{byte(b)}), run+3)
		}
	case c == 'x':
		if b, ok := digits(text, run+1, 2, 16); ok {
			u.add(string([]byte{byte(b)}), run+3)
			if b >= utf8.RuneSelf { // a character in some languages, a byte in others
				u.add(string(b), run+3)
			}
		}
	case c == 'u' || c == 'U':
		u.add(unicodeEscape(text, run))
	case strings.IndexByte("abfnrtv", c) >= 0:
		u.add(string("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)]), run+1)
	case c < utf8.RuneSelf && !isLetter(c):
		u.add(string(rune(c)), run+1)
	}
}

// unicodeEscape decodes the text after the backslashes: "u0022", a surrogate pair of such escapes,
// "U00000022", or "u{22}".
func unicodeEscape(text string, at int) (string, int) {
	if text[at] == 'U' {
		r, ok := digits(text, at+1, 8, 16)
		return runeText(r, ok, at+9)
	}
	if strings.HasPrefix(text[at:], "u{") {
		size := strings.IndexByte(text[at+2:min(len(text), at+9)], '}')
		r, ok := digits(text, at+2, size, 16)
		return runeText(r, ok, at+size+3)
	}
	r, ok := digits(text, at+1, 4, 16)
	end := at + 5
	if !ok || !utf16.IsSurrogate(r) || end+at+5 > len(text) || text[end:end+at+1] != text[:at+1] {
		return runeText(r, ok, end)
	}
	low, ok := digits(text, end+at+1, 4, 16)
	return runeText(utf16.DecodeRune(r, low), ok, end+at+5)
}

func runeText(r rune, ok bool, n int) (string, int) {
	if !ok || !utf8.ValidRune(r) {
		return "", 0
	}
	return string(r), n
}

// digits parses n digits at text[from] as a number.
func digits(text string, from, n int, base rune) (v rune, ok bool) {
	if n <= 0 || from+n > len(text) {
		return 0, false
	}
	for _, c := range []byte(text[from : from+n]) {
		digit := base
		switch {
		case '0' <= c && c <= '9':
			digit = rune(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			digit = rune(c|0x20-'a') + 10
		}
		if digit >= base || v > utf8.MaxRune {
			return 0, false
		}
		v = v*base + digit
	}
	return v, true
}

// isCutEscape reports whether text may be a truncated escape.
func isCutEscape(text string) bool {
	if len(text) >= longestEscape {
		return false
	}
	for i := range len(text) {
		if i > 0 && !isLetter(text[i]) && strings.IndexByte(`#{\`, text[i]) < 0 {
			return false
		}
	}
	return true
}
