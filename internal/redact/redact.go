// Package redact takes secrets out of texts, in the encodings in which programs repeat
// what they were given: quoted, escaped for JSON, HTML, C or URLs, in base64 or in
// hexadecimal digits.
//
// It helps against accidents: an error that quotes a password, a page that shows a header.
// A program that wants to tell a secret can always spell it in another way.
package redact

import (
	"cmp"
	"iter"
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
	first [256][]*form // by the first byte of their text, the longest first
	begin [256]bool    // bytes that something to redact may begin with
	forms []*form
}

// New returns a Replacer of secrets. Secrets that are empty, or nothing but white space, are
// ignored.
func New(secrets []string) *Replacer {
	r := new(Replacer)
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
		for _, b := range f.encoding.spellings(f.text[0]) {
			r.first[b] = append(r.first[b], f)
			r.begin[b] = true
		}
	}
	for _, b := range []byte(escapes + Text[:1]) {
		r.begin[b] = len(r.forms) > 0
	}
	return r
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
	var b strings.Builder
	copied := 0 // of text
	for s := range r.spans(text) {
		b.WriteString(text[copied:s.from])
		b.WriteString(Text)
		copied = s.to
	}
	if copied == 0 {
		return text
	}
	b.WriteString(text[copied:])
	return b.String()
}

// span is a part of a text, which is empty in the zero value.
type span struct{ from, to int }

func (s span) longest(other span) span {
	if other.to > s.to {
		return other
	}
	return s
}

// spans returns the parts of text that are secret, in their order. They do not overlap.
func (r *Replacer) spans(text string) iter.Seq[span] {
	return func(yield func(span) bool) {
		var last span
		for i := 0; i < len(text); i++ {
			if !r.begin[text[i]] {
				continue
			}
			s := r.match(text, i)
			switch {
			case s.to == 0 && strings.HasPrefix(text[i:], Text): // was redacted before
				i += len(Text) - 1
			case s.to == 0:
			case s.from < last.to:
				last.to = max(last.to, s.to)
			case last.to > 0 && !yield(last):
				return
			default:
				last = s
			}
		}
		if last.to > 0 {
			yield(last)
		}
	}
}

// match returns the longest secret that is spelled from text[i] on, the zero span where there
// is none.
func (r *Replacer) match(text string, i int) (best span) {
	for _, f := range r.first[text[i]] {
		if f.mayBe(text, i) {
			best = best.longest(f.find(text, i))
		}
	}
	if !isEscape(text[i]) {
		return best
	}
	escape := ways(text[i:])
	for _, u := range escape.all[:escape.n] {
		for _, f := range r.first[u.text[0]] {
			best = best.longest(f.find(text, i))
		}
	}
	return best
}
