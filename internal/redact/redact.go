// Package redact takes secrets out of texts, in the encodings in which programs repeat
// what they were given: quoted, escaped for JSON, HTML, C or URLs, in base64 or in
// hexadecimal digits.
//
// It helps against accidents: an error that quotes a password, a page that shows a header.
// A program that wants to tell a secret can always spell it in another way.
//
// The work for a text is in proportion to its length, whatever it has. Where a text needs
// more than that, all of the rest of it counts as a secret.
package redact

import (
	"cmp"
	"slices"
	"strings"
)

// Text stands for a secret in a redacted text.
const Text = "[redacted]"

const (
	// minLine is how long one line of a secret must be to count as a secret itself.
	minLine = 8
	// minEncoded is how long a secret must be to be found in base64 and in hexadecimal
	// digits: a shorter one would be found by chance.
	minEncoded = 4
	// maxEncodedLines is how many lines a secret may have whose lines are found in base64
	// and hexadecimal digits too. Of longer ones only the whole is.
	maxEncodedLines = 64
)

// Replacer takes secrets out of texts. It is safe for concurrent use.
type Replacer struct {
	begin [256]bool // bytes that something to redact may begin with
	forms []*form   // the longest first

	// The forms, by the bytes that they may begin with once escapes are read.
	single  [256][]*form // those of one byte
	pairs   map[[2]byte][]*form
	encoded [256][]*form // not the plain ones: line breaks may follow their first byte
}

// New returns a Replacer of secrets. Secrets that are empty, or nothing but white space, are
// ignored.
func New(secrets []string) *Replacer {
	r := &Replacer{pairs: make(map[[2]byte][]*form)}
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

// formsOf returns the forms of a secret: of all of it, without white space around it, and of
// its longer lines, for a key is often quoted by the line.
func formsOf(secret string) []form {
	trimmed := strings.TrimSpace(secret)
	if trimmed == "" {
		return nil
	}
	forms := append(encoded(trimmed), form{text: secret}, form{text: trimmed})
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

// Replace returns text without the secrets. Where secrets overlap, all of them are taken out.
// The beginning of a secret at the end of text is taken out as well, since text may have been
// cut there.
func (r *Replacer) Replace(text string) string {
	if len(r.forms) == 0 {
		return text
	}
	s := newScan(r, text)
	return s.replace()
}

func (s *scan) replace() string {
	text := s.text
	var b strings.Builder
	copied := 0 // of text
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
