// Package redact removes secrets from texts. It also finds secrets in the encodings in which programs repeat their
// input: quoted, escaped for JSON, HTML, C or URLs, in base64, in UTF-16 or in hexadecimal digits,
// and in two of these at once, such as base64 of JSON.
//
// It prevents accidents: an error that quotes a password, a page that shows a header. A program
// that wants to reveal a secret can always encode it in another way.
//
// The work for a text is limited in proportion to its length. When the limit is reached, the rest of the text
// counts as secret.
package redact

import (
	"cmp"
	"slices"
	"strings"
)

// Text replaces a secret in a redacted text.
const Text = "[redacted]"

const (
	// minLine is the minimum length of a line of a secret that counts as a secret itself.
	minLine = 8
	// minEncoded is the minimum length of a secret that is searched in base64 and hexadecimal
	// digits. A shorter secret would be found by chance.
	minEncoded = 4
	// minTwice is the minimum length of a secret that is searched in base64 of base64.
	minTwice = 8
	// maxTwice is the maximum length of a secret that is searched in UTF-16 and in two encodings, which take
	// many times its memory. A longer one is a key or a file.
	maxTwice = 512
	// maxEncodedLines is the maximum number of lines of a secret whose single lines are searched in base64
	// and hexadecimal digits.
	maxEncodedLines = 64
)

// Replacer removes secrets from texts. It is safe for concurrent use.
type Replacer struct {
	begin [256]bool // bytes that may begin a secret in a text
	forms []*form   // the longest first

	// The forms, by their first bytes after escapes are decoded.
	single  map[byte][]*form // forms of one byte
	pairs   map[[2]byte][]*form
	encoded map[byte][]*form // forms that are not plain, since a line break may follow their first byte
}

// New returns a Replacer of secrets. It ignores secrets that are empty or only white space. A short secret is
// replaced wherever its characters occur in a text.
func New(secrets []string) *Replacer {
	r := &Replacer{single: make(map[byte][]*form), pairs: make(map[[2]byte][]*form), encoded: make(map[byte][]*form)}
	seen := make(map[form]bool)
	for _, s := range secrets {
		for _, f := range formsOf(s) {
			if !seen[f] {
				seen[f] = true
				r.forms = append(r.forms, &f)
			}
		}
	}
	slices.SortFunc(r.forms, func(a, b *form) int {
		return cmp.Or(len(b.text)-len(a.text), cmp.Compare(a.encoding, b.encoding), strings.Compare(a.text, b.text))
	})
	for _, f := range r.forms {
		r.index(f)
	}
	for _, b := range []byte(escapes + Text[:1]) {
		r.begin[b] = len(r.forms) > 0
	}
	return r
}

func (r *Replacer) index(f *form) {
	for _, b := range f.encoding.spellings(f.text[0]) {
		r.begin[b] = true
		if f.encoding != plain {
			r.encoded[b] = append(r.encoded[b], f)
		}
		if len(f.text) == 1 {
			r.single[b] = append(r.single[b], f)
			continue
		}
		for _, c := range f.encoding.spellings(f.text[1]) {
			r.pairs[[2]byte{b, c}] = append(r.pairs[[2]byte{b, c}], f)
		}
	}
}

// formsOf returns the forms of the whole secret, of the secret without surrounding white space, and
// of its longer lines, since a key is often quoted line by line.
func formsOf(secret string) []form {
	trimmed := strings.TrimSpace(secret)
	if trimmed == "" {
		return nil
	}
	forms := append(encoded(trimmed), form{text: secret}, form{text: trimmed})
	forms = append(forms, encodedTwice(trimmed)...)
	if secret != trimmed {
		forms = append(forms, encoded(secret)...)
	}
	many := strings.Count(trimmed, "\n") >= maxEncodedLines
	for line := range strings.Lines(trimmed) {
		if line = strings.TrimSpace(line); len(line) < minLine {
			continue
		}
		if forms = append(forms, form{text: line}); !many {
			forms = append(forms, encoded(line)...)
		}
	}
	return forms
}

// Replace returns text without the secrets. If secrets overlap, it removes all of them. It also
// removes the beginning of a secret at the end of text, since text may have been truncated there.
func (r *Replacer) Replace(text string) string {
	if len(r.forms) == 0 {
		return text
	}
	s := newScan(r, text)
	return s.replace()
}

// Error returns err with its text changed by replace, such as [Replacer.Replace]; nil for nil.
func Error(err error, replace func(text string) string) error {
	if err == nil {
		return nil
	}
	return &redactedError{err, replace(err.Error())}
}

// redactedError is an error with another text.
type redactedError struct {
	err  error
	text string
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

func (s *scan) replace() string {
	text := s.text
	var b strings.Builder
	copied := 0 // end of the copied part of text
	for secret := range s.spans() {
		b.WriteString(text[copied:secret.from])
		b.WriteString(Text)
		copied = secret.to
	}
	if copied == 0 {
		return text
	}
	b.WriteString(text[copied:])
	return b.String()
}
