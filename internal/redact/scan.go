package redact

import (
	"iter"
	"strings"
)

const (
	// stepsPerByte limits the steps for a byte of a text. Pages and logs take fewer than ten
	// steps for a byte.
	stepsPerByte = 64
	// moreSteps is added for short texts.
	moreSteps = 1 << 16
	// escapeSteps is the number of steps to decode an escape in one way.
	escapeSteps = 8
)

// span is a part of a text. The zero value is empty.
type span struct{ from, to int }

func (s span) longest(other span) span {
	if other.to > s.to {
		return other
	}
	return s
}

// scan searches one text for the secrets.
type scan struct {
	*Replacer
	text string
	left int // remaining steps
}

func newScan(r *Replacer, text string) scan {
	return scan{r, text, stepsPerByte*len(text) + moreSteps}
}

// steps returns the number of steps to decode the escape.
func (u *units) steps() int { return escapeSteps * (1 + u.n) }

// spans returns the parts of the text that are secret, in order. They do not overlap.
func (s *scan) spans() iter.Seq[span] {
	return func(yield func(span) bool) {
		var last span
		for i := 0; i < len(s.text); i++ {
			if !s.begin[s.text[i]] {
				continue
			}
			found := s.match(i)
			if s.left < 0 { // the limit is reached
				found, i = span{i, len(s.text)}, len(s.text)
			}
			switch {
			case found.to == 0 && strings.HasPrefix(s.text[i:], Text): // was redacted before
				i += len(Text) - 1
			case found.to == 0:
			case found.from < last.to:
				last.to = max(last.to, found.to)
			case last.to > 0 && !yield(last):
				return
			default:
				last = found
			}
		}
		if last.to > 0 {
			yield(last)
		}
	}
}

// match returns the longest secret that begins at text[i]; the zero span if there is none.
func (s *scan) match(i int) span {
	best := s.matchFirst(i, s.text[i:i+1], i+1)
	if !isEscape(s.text[i]) {
		return best
	}
	escape := ways(s.text[i:])
	s.left -= escape.steps()
	for _, u := range escape.all[:escape.n] {
		best = best.longest(s.matchFirst(i, u.text, i+u.n))
	}
	return best
}

// matchFirst is match with text[i:next] decoded as first. It tries only the forms whose second
// byte matches too.
func (s *scan) matchFirst(i int, first string, next int) (best span) {
	b := first[0]
	if !s.begin[b] {
		return span{}
	}
	if len(first) > 1 {
		return s.longest(i, s.pairs[[2]byte{b, first[1]}])
	}
	best = s.longest(i, s.single[b])
	if next >= len(s.text) {
		return best
	}
	c := s.text[next]
	best = best.longest(s.longest(i, s.pairs[[2]byte{b, c}]))
	if isBreak(s.text[next:]) {
		best = best.longest(s.longest(i, s.encoded[b]))
	}
	if !isEscape(c) {
		return best
	}
	escape := ways(s.text[next:])
	s.left -= escape.steps()
	for _, u := range escape.all[:escape.n] {
		if u.text[0] != c {
			best = best.longest(s.longest(i, s.pairs[[2]byte{b, u.text[0]}]))
		}
	}
	return best
}

// longest returns the longest match of forms that begins at text[i].
func (s *scan) longest(i int, forms []*form) (best span) {
	for _, f := range forms {
		if s.left < 0 {
			return best
		}
		best = best.longest(f.find(s, i))
	}
	return best
}
