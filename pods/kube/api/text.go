package api

import (
	"strings"
	"unicode"
)

// OneLine returns text as one line of valid UTF-8 without control characters, and without characters that
// change the direction of text: a target, or the owner of a pod, may have written them. It is for terminals. The
// end of a text that is much longer than any message is dropped.
func OneLine(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), 8*maxMessage)], "")
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, text)), " ")
}
